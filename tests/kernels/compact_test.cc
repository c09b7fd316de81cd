// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/compact.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>

#include "tests/kernels/reference.h"
#include "tests/kernels/test_session.h"

namespace spin::kernels {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr int32_t kUntouched = -99;

class CompactTest : public DeviceTest {
 protected:
  struct Compacted {
    std::vector<int32_t> table;   // [layers][rows][stride]
    std::vector<int32_t> slots;   // [layers][rows][kMaxNextN]
    std::vector<int32_t> blocks;  // [layers][rows][stride]
    int32_t unserved;
  };

  Compacted Compact(TestSession& session, const std::vector<Row>& rows,
                    const std::vector<int32_t>& table,
                    std::optional<uint64_t> epoch = std::nullopt) {
    const DeviceArray<Row> device_rows(device_, rows);
    const DeviceArray<int32_t> device_table(device_, table);
    const size_t layers = session.geometry().layers;
    const std::vector<int32_t> untouched(layers * table.size(), kUntouched);
    const DeviceArray<int32_t> kept(device_, untouched);
    const DeviceArray<int32_t> blocks(device_, untouched);
    const DeviceArray<int32_t> slots(
        device_, std::vector<int32_t>(layers * rows.size() * kMaxNextN, kUntouched));
    const DeviceArray<int32_t> unserved(device_, std::vector<int32_t>(1, 0));
    device_.Finish(
        device_->Compact({.geometry = session.geometry(),
                          .layers = session.all_layers(),
                          .rows = device_rows.data(),
                          .row_count = static_cast<int32_t>(rows.size()),
                          .epoch = epoch.value_or(session.launch_epoch()),
                          .lists = session.launch_lists(),
                          .block_table = device_table.data(),
                          .table_stride = static_cast<int32_t>(table.size() / rows.size()),
                          .next_n_stride = kMaxNextN,
                          .kept_table = kept.data(),
                          .kept_slots = slots.data(),
                          .kept_blocks = blocks.data(),
                          .unserved = unserved.data(),
                          .binding = session.LaunchBinding()},
                         {}));
    return {kept.Download(), slots.Download(), blocks.Download(), unserved.Download()[0]};
  }

  std::vector<int32_t> Remap(const Compacted& compacted, TestSession& session,
                             const std::vector<Row>& rows, int32_t stride,
                             const std::vector<int32_t>& topk) {
    const DeviceArray<Row> device_rows(device_, rows);
    const DeviceArray<int32_t> indices(device_, topk);
    const DeviceArray<int32_t> blocks(device_, compacted.blocks);
    const size_t lists = session.geometry().layers * rows.size();
    device_.Finish(
        device_->Remap({.geometry = session.geometry(),
                        .layers = session.all_layers(),
                        .rows = device_rows.data(),
                        .row_count = static_cast<int32_t>(rows.size()),
                        .kept_blocks = blocks.data(),
                        .table_stride = static_cast<int32_t>(compacted.blocks.size() / lists),
                        .next_n_stride = kMaxNextN,
                        .topk_stride = stride,
                        .topk = indices.data()},
                       {}));
    return indices.Download();
  }

  static constexpr Geometry kSmall = {1, 16, 16, 1, Dtype::kF32};
};
SPIN_TEST_ON_EVERY_DEVICE(CompactTest);

TEST_P(CompactTest, TableHoldsTheKeptBlocksOnly) {
  TestSession session(device_, {.geometry = kSmall});
  session.Open(0, 100);
  session.SelectFrom({1, 5, 2, 4, 3, 0}, RowAt(90), Skip(0.5));
  const Compacted out = Compact(session, {RowAt(90)}, {70, 71, 72, 73, 74, 75, 76});
  EXPECT_THAT(out.table, ElementsAre(71, 73, 75, kUntouched, kUntouched, kUntouched, kUntouched));
  EXPECT_THAT(out.slots, ElementsAre(43, 0, 0, 0, 0, 0, 0, 0));  // 91 - 3 * 16
}

TEST_P(CompactTest, EveryVerifierRowHasItsLength) {
  TestSession session(device_, {.geometry = {1, 16, 16, 4, Dtype::kF32}});
  session.Open(0, 100);
  session.SelectFrom({0, 3, 2, 1, 0, 0}, RowAt(361, 8), Skip(0.5));  // up to slot 91
  const Compacted out = Compact(session, {RowAt(361, 8)}, std::vector<int32_t>(6));
  // Skipping none: 3, and a block for each of 7 drafts.
  EXPECT_THAT(out.slots, ElementsAre(90, 90, 91, 91, 91, 91, 92, 92));
  session.SelectFrom({0, 3, 2, 1, 0, 0}, RowAt(361, 3), Skip(0.9));
  EXPECT_THAT(Compact(session, {RowAt(361, 3)}, std::vector<int32_t>(6)).slots,
              ElementsAre(90 - 48, 90 - 48, 91 - 48, 0, 0, 0, 0, 0));
}

TEST_P(CompactTest, RowsWithoutARequestKeepAllBlocks) {
  TestSession session(device_, {.geometry = kSmall, .max_requests = 2});
  session.Open(0, 100);
  Row unknown = RowAt(20);
  unknown.request = kPaddingRow;
  session.Select({RowAt(90)}, Skip(0.5));
  const Compacted out =
      Compact(session, {unknown, RowAt(90)}, {7, 8, -1, -1, -1, -1, 5, 6, 9, 4, 3, 2});
  EXPECT_THAT(std::vector(out.table.begin(), out.table.begin() + 3), ElementsAre(7, 8, kUntouched));
  EXPECT_EQ(out.slots[0], 21);
  EXPECT_EQ(out.slots[kMaxNextN], 43);
  EXPECT_EQ(out.unserved, 0);  // nobody promised it a list
}

TEST_P(CompactTest, RowsWithoutAContextHaveNoSlots) {
  TestSession session(device_, {.geometry = kSmall});
  Row nothing = RowAt(20);
  nothing.request = kPaddingRow;
  nothing.next_n = 0;
  const Compacted out = Compact(session, {nothing}, {7, 8});
  EXPECT_THAT(out.table, Each(kUntouched));
  EXPECT_THAT(out.slots, Each(0));
}

TEST_P(CompactTest, ListsThatDoNotServeKeepAllBlocks) {
  TestSession session(device_, {.geometry = kSmall});
  session.Open(0, 100);
  const std::vector<int32_t> table = {70, 71, 72, 73, 74, 75};
  const auto all = [&](const Row& row, uint64_t epoch = TestSession::kEpoch) {
    const Compacted out = Compact(session, {row}, table, epoch);
    return out.unserved == 1 && out.table == table && out.slots[0] == row.position + 1;
  };
  session.SelectFrom({1, 5, 2, 4, 3, 0}, RowAt(90), Skip(0.5));
  ASSERT_FALSE(all(RowAt(90)));
  EXPECT_TRUE(all(RowAt(91)));
  EXPECT_TRUE(all(RowAt(90, 2)));
  EXPECT_TRUE(all(RowAt(90), TestSession::kEpoch + 1));
  Row other = RowAt(90);
  other.generation = 2;
  EXPECT_TRUE(all(other));
  other = RowAt(90);
  other.buffer = 1;
  EXPECT_TRUE(all(other));
}

TEST_P(CompactTest, BoundLaunchFindsItsLists) {
  TestSession session(device_, {.geometry = kSmall, .bound = true});
  session.Open(0, 100);
  session.SelectFrom({1, 5, 2, 4, 3, 0}, RowAt(90), Skip(0.5));
  const Compacted out = Compact(session, {RowAt(90)}, {70, 71, 72, 73, 74, 75});
  EXPECT_THAT(std::vector(out.blocks.begin(), out.blocks.begin() + 3), ElementsAre(1, 3, 5));
}

TEST_P(CompactTest, UnsoundListsKeepAllBlocks) {
  TestSession session(device_, {.geometry = kSmall});
  session.Open(0, 100);
  const std::vector<int32_t> table = {70, 71, 72, 73, 74, 75};
  session.SelectFrom({1, 5, 2, 4, 3, 0}, RowAt(90), Skip(0.5));  // 1, 3, 5
  const ListHeader good = session.List(0, 0, 0).header;
  for (const std::vector<int32_t>& bad :
       {std::vector{3, 1, 5}, {1, 1, 5}, {-1, 3, 5}, {1, 3, 4}, {1, 3, 6}, {1, 7, 5}}) {
    session.SetList(0, 0, 0, bad);
    EXPECT_EQ(Compact(session, {RowAt(90)}, table).table, table) << ::testing::PrintToString(bad);
  }
  session.SetList(0, 0, 0, {1, 3, 5});
  ASSERT_NE(Compact(session, {RowAt(90)}, table).table, table);
  for (const int32_t count : {-1, 0, 7}) {
    ListHeader header = good;
    header.count = count;
    session.SetHeader(0, 0, 0, header);
    EXPECT_EQ(Compact(session, {RowAt(90)}, table).table, table) << count;
  }
}

TEST_P(CompactTest, EmptyContextCompactsToNothing) {
  TestSession session(device_, {.geometry = {1, 16, 16, 4, Dtype::kF32}});
  session.Open(0, 100);
  session.SelectFrom({}, RowAt(1), Skip(0.5));
  const Compacted out = Compact(session, {RowAt(1)}, {7});
  EXPECT_THAT(out.table, ElementsAre(kUntouched));
  EXPECT_THAT(out.slots, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
}

TEST_P(CompactTest, RemapTurnsCompactedIndicesIntoSlots) {
  TestSession session(device_, {.geometry = kSmall});
  session.Open(0, 100);
  session.SelectFrom({1, 5, 2, 4, 3, 0}, RowAt(90, 2), Skip(0.7));  // keeps 1, 3 and 5
  std::vector<int32_t> topk = {0, 17, 42, 15, 16, -1, 6 * 16, INT32_MAX};
  topk.resize(kMaxNextN * 4);
  const Compacted out = Compact(session, {RowAt(90, 2)}, std::vector<int32_t>(6));
  std::vector<int32_t> slots = Remap(out, session, {RowAt(90, 2)}, 4, topk);
  slots.resize(8);
  // Those that no block stands for stay.
  EXPECT_THAT(slots, ElementsAre(16, 49, 90, 31, 48, -1, 6 * 16, INT32_MAX));
}

// What an engine relies on: gather through the compacted table, take positions, map them back.
TEST_P(CompactTest, ScoresThroughTheCompactedTableAreThoseOfTheFullScan) {
  constexpr int64_t kPosition = 1234;
  constexpr int32_t kNextN = 3;
  const Geometry g = {2, 32, 32, 1, Dtype::kF32};
  TestSession session(device_, {.geometry = g, .max_slots = 2048});
  session.Open(0, 100);
  Policy policy = Skip(0.6);
  policy.exploration = 0.3;
  const Row row = RowAt(kPosition, kNextN);
  for (const int32_t layer : {0, 1}) {
    session.SetBlockScores(layer, 0, 1, std::vector<float>(64, 1.0f));
  }
  session.Select({row}, policy);

  const int32_t blocks = reference::BlockCount(kPosition + kNextN, g);
  std::vector<int32_t> table(blocks);  // physical blocks, shuffled
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::mt19937_64(1));
  const auto score = [&](int32_t block, int64_t offset) { return block * 1000.0f + offset; };

  const Compacted out = Compact(session, {row}, table);
  for (int32_t layer = 0; layer < 2; ++layer) {
    for (int32_t draft = 0; draft < kNextN; ++draft) {
      const int32_t slots = out.slots[layer * kMaxNextN + draft];
      std::vector<int32_t> indices(2 * kMaxNextN * slots, -1);
      const int64_t at = (int64_t{layer} * kMaxNextN + draft) * slots;
      std::iota(indices.begin() + at, indices.begin() + at + slots, 0);
      const std::vector<int32_t> mapped = Remap(out, session, {row}, slots, indices);
      for (int32_t c = 0; c < slots; ++c) {
        const int32_t slot = mapped[at + c];
        ASSERT_LT(slot, kPosition + draft + 1);
        ASSERT_EQ(score(out.table[layer * blocks + c / g.block], c % g.block),
                  score(table[slot / g.block], slot % g.block));
      }
      EXPECT_EQ(mapped[at + slots - 1], kPosition + draft);  // the query's own slot is the last
    }
  }
}

}  // namespace
}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/compact.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/kernels/reference.h"
#include "tests/kernels/test_session.h"

namespace spin::kernels {
namespace {

using ::testing::ElementsAre;

constexpr int32_t kUntouched = -99;

class CompactTest : public DeviceTest {
 protected:
  struct Compacted {
    std::vector<int32_t> table;  // [layers][rows][stride]
    std::vector<int32_t> slots;  // [layers][rows][kMaxNextN]
  };

  Compacted Compact(TestSession& session, const std::vector<Row>& rows,
                    const std::vector<int32_t>& table) {
    const DeviceArray<Row> device_rows(device_, rows);
    const DeviceArray<int32_t> device_table(device_, table);
    const size_t layers = session.geometry().layers;
    const DeviceArray<int32_t> kept(device_,
                                    std::vector<int32_t>(layers * table.size(), kUntouched));
    const DeviceArray<int32_t> slots(
        device_, std::vector<int32_t>(layers * rows.size() * kMaxNextN, kUntouched));
    device_.Finish(
        device_->Compact({.geometry = session.geometry(),
                          .layers = session.all_layers(),
                          .rows = device_rows.data(),
                          .row_count = static_cast<int32_t>(rows.size()),
                          .lists = session.lists(),
                          .block_table = device_table.data(),
                          .table_stride = static_cast<int32_t>(table.size() / rows.size()),
                          .kept_table = kept.data(),
                          .kept_slots = slots.data()},
                         {}));
    return {kept.Download(), slots.Download()};
  }

  std::vector<int32_t> Remap(TestSession& session, const std::vector<Row>& rows, int32_t stride,
                             const std::vector<int32_t>& topk) {
    const DeviceArray<Row> device_rows(device_, rows);
    const DeviceArray<int32_t> indices(device_, topk);
    device_.Finish(device_->Remap({.geometry = session.geometry(),
                                   .layers = session.all_layers(),
                                   .rows = device_rows.data(),
                                   .row_count = static_cast<int32_t>(rows.size()),
                                   .lists = session.lists(),
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

TEST_P(CompactTest, PaddingRowsAreLeftAsTheyWere) {
  TestSession session(device_, {.geometry = kSmall, .max_requests = 2});
  session.Open(0, 100);
  Row padding = RowAt(20);
  padding.request = kPaddingRow;
  session.Select({RowAt(20)}, Skip(0));
  const Compacted out = Compact(session, {padding, RowAt(20)}, {7, 8, 5, 6});
  EXPECT_THAT(out.table, ElementsAre(kUntouched, kUntouched, 5, 6));
  EXPECT_EQ(std::count(out.slots.begin(), out.slots.end(), kUntouched), kMaxNextN);
  EXPECT_THAT(Remap(session, {padding}, 1, std::vector<int32_t>(kMaxNextN, 40)),
              ::testing::Each(40));
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
  std::vector<int32_t> topk(kMaxNextN * 3, kUntouched);
  std::copy_n(std::vector<int32_t>{0, 17, 42, 15, 16, -1}.begin(), 6, topk.begin());
  std::vector<int32_t> slots = Remap(session, {RowAt(90, 2)}, 3, topk);
  EXPECT_THAT(slots[5], -1);
  slots.resize(5);
  EXPECT_THAT(slots, ElementsAre(16, 49, 90, 31, 48));
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
      const std::vector<int32_t> mapped = Remap(session, {row}, slots, indices);
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

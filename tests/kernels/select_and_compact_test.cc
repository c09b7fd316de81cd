// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/kernels/select_and_compact_harness.h"

#include <gmock/gmock.h>

// One launch against two: everything that Select and Compact write, bit by bit.
namespace spin::kernels {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

SPIN_TEST_ON_EVERY_DEVICE(SelectAndCompactTest);

// Padding for `row`: of Compact's side it keeps all blocks.
Row Padded(Row row) {
  row.request = kPaddingRow;
  return row;
}

Launch LaunchOf(const TestSession& session, const std::vector<Row>& rows) {
  return {.layers = session.all_layers(),
          .listed = rows,
          .compacted = rows,
          .table_stride = session.max_blocks()};
}

TEST_P(SelectAndCompactTest, ListAndTableAreThoseOfTwoLaunches) {
  TestSession session(device_, {.geometry = kSmall});
  session.Open(0, 100);
  Launch launch = LaunchOf(session, {RowAt(90)});
  launch.table_stride = 7;
  const Written out = ExpectSame(session, launch);  // nothing was observed: the first, and the tail
  EXPECT_THAT(out.blocks, ElementsAre(0, 1, 5, kUntouched, kUntouched, kUntouched, kUntouched));
  EXPECT_THAT(out.slots, ElementsAre(43, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(out.unserved, 0);
}

TEST_P(SelectAndCompactTest, PaddingKeepsAllBlocksOfARowWhoseListIsMade) {
  TestSession session(device_, {.geometry = kSmall});
  session.Open(0, 100);
  Launch launch = LaunchOf(session, {RowAt(90)});
  launch.table_stride = 6;
  launch.compacted = {Padded(RowAt(90))};
  const Written out = ExpectSame(session, launch);
  EXPECT_THAT(out.blocks, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(out.slots[0], 91);
  EXPECT_EQ(out.unserved, 0);
  EXPECT_THAT(session.List(0, 0, 0).blocks, ElementsAre(0, 1, 5));
}

// Also where a list that would serve lies there from before.
TEST_P(SelectAndCompactTest, RowThatIsNotSelectsKeepsAllBlocksAndIsCounted) {
  const Geometry g = {3, 16, 16, 1, Dtype::kF32};
  for (const bool bound : {false, true}) {
    TestSession session(device_, {.geometry = g, .max_requests = 2, .bound = bound});
    for (const uint32_t request : {0, 1}) session.Open(request, 100, request);
    const Row row = RowAt(90);
    Row other_request = row, other_buffer = row;
    other_request.request = 1;
    other_buffer.buffer = 1;
    for (const Row& listed :
         {Padded(row), other_request, other_buffer, RowAt(89), RowAt(91), RowAt(90, 2)}) {
      Launch launch = LaunchOf(session, {row, RowAt(20)});
      launch.layers = {1, 2};
      launch.compacted[1] = Padded(RowAt(20));
      launch.listed[1] = Padded(RowAt(20));
      ASSERT_EQ(Run(session, launch, /*together=*/true).unserved, 0);
      launch.listed[0] = listed;
      const Written out = Run(session, launch, /*together=*/true, /*fresh=*/false);
      EXPECT_EQ(out.unserved, 2);  // once for each layer of the launch
      for (const int32_t layer : {1, 2}) {
        const auto first = out.blocks.begin() + layer * 2 * launch.table_stride;
        EXPECT_THAT(std::vector(first, first + 6), ElementsAre(0, 1, 2, 3, 4, 5));
        EXPECT_EQ(out.slots[layer * 2 * kMaxNextN], 91);
      }
    }
  }
}

TEST_P(SelectAndCompactTest, RowOfAnotherGenerationKeepsAllBlocksAndIsCounted) {
  TestSession session(device_, {.geometry = kSmall});
  session.Open(0, 100);
  session.SetGeneration(0, 2);
  Launch launch = LaunchOf(session, {RowAt(90)});
  const Written out = ExpectSame(session, launch);
  EXPECT_EQ(out.unserved, 1);
  EXPECT_EQ(out.slots[0], 91);
}

TEST_P(SelectAndCompactTest, RowsWithoutAContextHaveNoSlots) {
  TestSession session(device_, {.geometry = {1, 16, 16, 4, Dtype::kF32}});
  session.Open(0, 100);
  Launch launch = LaunchOf(session, {RowAt(1), Padded(RowAt(20))});
  launch.compacted[1].next_n = 0;
  const Written out = ExpectSame(session, launch);
  EXPECT_THAT(out.table, Each(kUntouched));
  EXPECT_THAT(out.slots, Each(0));
  EXPECT_EQ(out.unserved, 0);
}

// Contexts around the sizes at which a GPU keeps its keys elsewhere.
TEST_P(SelectAndCompactTest, LongContextsAreThoseOfTwoLaunches) {
  std::mt19937_64 random(7);
  constexpr int32_t kMost = 36000;
  for (const int32_t max_blocks : {2048, 4096, 16384, 32768, kMost}) {
    TestSession session(device_, {.geometry = {2, 16, 100, 1, Dtype::kBF16},
                                  .max_slots = int64_t{16} * max_blocks});
    session.Open(0, int64_t{16} * max_blocks);
    for (const int32_t blocks : {1, max_blocks / 2 + 1, max_blocks - 1, max_blocks}) {
      const Row row = RowAt(int64_t{16} * blocks - 1 - static_cast<int64_t>(random() % 14));
      session.Open(0, int64_t{16} * max_blocks);
      Fill(session, row, random);
      Launch launch = LaunchOf(session, {row});
      launch.policy = Skip(0.4);
      launch.policy.exploration = 0.05;
      ExpectSame(session, launch);
      if (HasFailure()) FAIL() << blocks << " of " << max_blocks << " blocks";
    }
  }
}

// The same where a GPU has summaries, for rows that keep all blocks, too: of few blocks some of its
// warps have nothing to choose from.
TEST_P(SelectAndCompactTest, LongContextsKeepAllBlocksOfRowsThatAreNotListed) {
  std::mt19937_64 random(8);
  for (const int32_t max_blocks : {2048, 8192, 9000, 33000}) {
    TestSession session(device_, {.geometry = {1, 64, 512, 1, Dtype::kBF16},
                                  .max_slots = int64_t{64} * max_blocks});
    session.Open(0, int64_t{64} * max_blocks);
    for (const int32_t blocks : {100, max_blocks}) {
      const Row row = RowAt(int64_t{64} * blocks - 1 - static_cast<int64_t>(random() % 50));
      Fill(session, row, random);
      Row other = row;
      other.generation = 5;
      for (const Row& compacted : {row, Padded(row), other}) {
        Launch launch = LaunchOf(session, {row});
        launch.compacted = {compacted};
        ExpectSame(session, launch);
        if (HasFailure()) FAIL() << blocks << " of " << max_blocks << " blocks";
      }
    }
  }
}

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  std::mt19937_64& random() { return random_; }
  int64_t Below(int64_t bound) { return static_cast<int64_t>(random_() % bound); }
  template <typename T>
  T OneOf(std::initializer_list<T> choices) {
    return choices.begin()[Below(static_cast<int64_t>(choices.size()))];
  }

  SessionOptions Options() {
    return {.geometry = {.layers = static_cast<int32_t>(1 + Below(4)),
                         .block = OneOf({16, 32, 64, 128}),
                         .topk = OneOf({1, 30, 64, 2048}),
                         .tokens_per_slot = OneOf({1, 1, 4}),
                         .state = OneOf({Dtype::kF32, Dtype::kBF16})},
            .max_requests = static_cast<int32_t>(1 + Below(5)),
            .max_slots = 9000,
            .page_seed = random_(),
            .bound = Below(2) == 0};
  }

  // A row for each request, some with a list and some without, and padding.
  Launch OfSession(const TestSession& session) {
    Launch launch;
    const Geometry& g = session.geometry();
    const int32_t first = static_cast<int32_t>(Below(g.layers));
    launch.layers = {first, static_cast<int32_t>(1 + Below(g.layers - first))};
    uint32_t widest = 1;
    const auto drafts = OneOf<uint32_t>({1, 1, 4, kMaxNextN});
    for (int32_t i = 0; i < session.lists().max_requests; ++i) {
      Row row = RowAt(0, static_cast<uint32_t>(1 + Below(drafts)));
      widest = std::max(widest, row.next_n);
      const int64_t slots = OneOf<int64_t>({Below(4), Below(40), Below(600), Below(8900)});
      row.position = slots * g.tokens_per_slot + Below(g.tokens_per_slot);
      row.request = static_cast<uint32_t>(i);
      row.buffer = static_cast<uint32_t>(Below(2));
      const int64_t kind = Below(6);
      launch.listed.push_back(kind == 0 ? Padded(row) : row);
      launch.compacted.push_back(kind <= 1 ? Padded(row) : row);
      if (kind == 0 && Below(2) == 0) launch.compacted.back().next_n = 0;
    }
    launch.policy.exploration = OneOf({0.0, 0.05, 0.3, 1.0});
    for (double& sparsity : launch.policy.sparsity) sparsity = OneOf({0.0, 0.3, 0.6, 0.999});
    launch.policy.seed = random_();
    launch.policy.pin_first_block = static_cast<uint32_t>(Below(2));
    launch.table_stride = session.max_blocks() + static_cast<int32_t>(Below(50));
    launch.next_n_stride = static_cast<int32_t>(widest + Below(3));
    launch.predicted = Below(4) == 0;
    launch.with_blocks = Below(4) > 0;
    launch.with_unserved = Below(4) > 0;
    return launch;
  }

 private:
  std::mt19937_64 random_;
};

// A GPU shares out the work of a row differently where rows are more than its multiprocessors, than
// two for each of those, and than four.
TEST_P(SelectAndCompactTest, ManyRowsAreThoseOfTwoLaunchesAndOfEachAlone) {
  struct Size {
    int32_t requests;
    int64_t max_slots;
  };
  for (const Size& size : {Size{40, 9000}, Size{70, 9000}, Size{140, 9000}, Size{34, 140000}}) {
    TestSession session(device_, {.geometry = {4, 64, 64, 1, Dtype::kBF16},
                                  .max_requests = size.requests,
                                  .max_slots = size.max_slots});
    std::mt19937_64 random(11);
    std::vector<Row> rows;
    for (int32_t i = 0; i < size.requests; ++i) {
      Row row = RowAt(static_cast<int64_t>(random() % 8900));
      row.request = static_cast<uint32_t>(i);
      rows.push_back(row);
      session.Open(row.request, 9000, random());
      Fill(session, row, random);
    }
    ExpectSame(session, LaunchOf(session, rows));
    std::vector<std::vector<int32_t>> lists;
    const auto lists_of = [&](const Row& row) {
      for (int32_t layer = 0; layer < 4; ++layer) {
        lists.push_back(session.List(0, row.request, layer).blocks);
      }
    };
    for (const Row& row : rows) lists_of(row);
    const std::vector<std::vector<int32_t>> among_many = std::exchange(lists, {});
    for (const Row& row : rows) {
      Run(session, LaunchOf(session, {row}), /*together=*/true);
      lists_of(row);
    }
    EXPECT_EQ(lists, among_many);
  }
}

TEST_P(SelectAndCompactTest, RandomLaunchesAreThoseOfTwoLaunches) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Draw draw(seed);
    TestSession session(device_, draw.Options());
    const Launch launch = draw.OfSession(session);
    for (size_t r = 0; r < launch.listed.size(); ++r) {
      session.Open(static_cast<uint32_t>(r), 9000, draw.random()());
      Fill(session, launch.listed[r], draw.random());
    }
    ExpectSame(session, launch);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace spin::kernels

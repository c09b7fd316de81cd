// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "kernels/compact.h"
#include "tests/kernels/test_session.h"

// One launch against two: everything that Select and Compact write, bit by bit.
namespace spin::kernels {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr int32_t kUntouched = -99;

// A launch, but for its session.
struct Launch {
  LayerRange layers;
  std::vector<Row> listed;
  std::vector<Row> compacted;
  Policy policy = Skip(0.5);
  int32_t table_stride = 0;
  int32_t next_n_stride = kMaxNextN;
  bool predicted = false;  // Select takes the block scores of Predict
  bool with_blocks = true;
  bool with_unserved = true;
};

// All that a launch may write.
struct Written {
  std::vector<std::byte> lists;  // headers, masks and blocks, as far as they mean something
  std::vector<int32_t> table;
  std::vector<int32_t> slots;
  std::vector<int32_t> blocks;
  int32_t unserved;
};

class SelectAndCompactTest : public DeviceTest {
 protected:
  static constexpr Geometry kSmall = {1, 16, 16, 1, Dtype::kF32};

  // Launches over lists that were garbage before, unless they are to stay.
  Written Run(TestSession& session, const Launch& launch, bool together, bool fresh = true) {
    if (fresh) ScrambleLists(session);
    const auto rows = static_cast<int32_t>(launch.listed.size());
    const size_t table_size = size_t{1} * session.geometry().layers * rows * launch.table_stride;
    std::vector<int32_t> pages(size_t{1} * rows * launch.table_stride);
    std::iota(pages.begin(), pages.end(), 1000);
    std::shuffle(pages.begin(), pages.end(), std::mt19937_64(1));
    const std::vector<int32_t> untouched(table_size, kUntouched);
    const DeviceArray<Row> listed(device_, launch.listed);
    const DeviceArray<Row> compacted(device_, launch.compacted);
    const DeviceArray<Policy> policy(device_, std::vector<Policy>{launch.policy});
    const DeviceArray<int32_t> block_table(device_, pages);
    const DeviceArray<int32_t> table(device_, untouched);
    const DeviceArray<int32_t> blocks(device_, untouched);
    const DeviceArray<int32_t> slots(
        device_,
        std::vector<int32_t>(size_t{1} * session.geometry().layers * rows * launch.next_n_stride,
                             kUntouched));
    const DeviceArray<int32_t> unserved(device_, std::vector<int32_t>(1, 0));
    const int32_t max_blocks = session.max_blocks();
    const DeviceArray<float> block_scores(
        device_, size_t{1} * session.geometry().layers * rows * max_blocks);
    if (launch.predicted) Predict(session, launch, listed.data(), block_scores.data());
    const DeviceArray<std::byte> workspace(
        device_, std::max<int64_t>(8, device_->SelectWorkspaceBytes(session.geometry().layers, rows,
                                                                    max_blocks)));
    const Binding* const binding = session.LaunchBinding();
    const SelectParams select = {.geometry = session.geometry(),
                                 .state = session.launch_state(),
                                 .layers = launch.layers,
                                 .rows = listed.data(),
                                 .row_count = rows,
                                 .max_blocks = max_blocks,
                                 .layer_stride = int64_t{rows} * max_blocks,
                                 .block_scores = launch.predicted ? block_scores.data() : nullptr,
                                 .policy = policy.data(),
                                 .epoch = session.launch_epoch(),
                                 .lists = session.launch_lists(),
                                 .workspace = workspace.data(),
                                 .binding = binding};
    const CompactParams compact = {.geometry = session.geometry(),
                                   .layers = launch.layers,
                                   .rows = compacted.data(),
                                   .row_count = rows,
                                   .epoch = session.launch_epoch(),
                                   .lists = session.launch_lists(),
                                   .block_table = block_table.data(),
                                   .table_stride = launch.table_stride,
                                   .next_n_stride = launch.next_n_stride,
                                   .kept_table = table.data(),
                                   .kept_slots = slots.data(),
                                   .kept_blocks = launch.with_blocks ? blocks.data() : nullptr,
                                   .unserved = launch.with_unserved ? unserved.data() : nullptr,
                                   .binding = binding};
    if (together) {
      device_.Finish(device_->SelectAndCompact(select, compact, {}));
    } else {
      device_.Finish(device_->Select(select, {}));
      device_.Finish(device_->Compact(compact, {}));
    }
    return {Lists(session), table.Download(), slots.Download(), blocks.Download(),
            unserved.Download()[0]};
  }

  Written ExpectSame(TestSession& session, const Launch& launch) {
    const Written apart = Run(session, launch, /*together=*/false);
    const Written together = Run(session, launch, /*together=*/true);
    EXPECT_TRUE(together.lists == apart.lists);
    EXPECT_TRUE(together.table == apart.table);
    EXPECT_EQ(together.slots, apart.slots);
    EXPECT_TRUE(together.blocks == apart.blocks);
    EXPECT_EQ(together.unserved, apart.unserved);
    return together;
  }

  // A state in which every slot of the row's request was scored, twice where there is room.
  void Fill(TestSession& session, const Row& row, std::mt19937_64& random) {
    if (row.request == kPaddingRow) return;
    const Geometry& g = session.geometry();
    for (const int64_t back : {2 * g.tokens_per_slot, g.tokens_per_slot}) {
      const int64_t position = row.position - back;
      const int64_t slots = VisibleSlots(position, g.tokens_per_slot);
      if (position < 0 || slots == 0) continue;
      ScoreTensor scores(g.layers, 1, 1, slots);
      for (int32_t layer = 0; layer < g.layers; ++layer) {
        std::generate_n(scores.At(layer, 0), slots,
                        [&] { return static_cast<float>(random() % 4096) / 1024 - 4; });
      }
      ScoredRow scored = ScoredAt(position);
      scored.request = row.request;
      session.Observe({scored}, scores, 0.5);
    }
  }

 private:
  void Predict(TestSession& session, const Launch& launch, const Row* rows, float* out) {
    const auto count = static_cast<int32_t>(launch.listed.size());
    device_.Finish(device_->Predict({.geometry = session.geometry(),
                                     .state = session.state(),
                                     .layers = launch.layers,
                                     .rows = rows,
                                     .row_count = count,
                                     .max_blocks = session.max_blocks(),
                                     .layer_stride = int64_t{count} * session.max_blocks(),
                                     .block_scores = out},
                                    {}));
  }

  static size_t ListCount(const TestSession& session) {
    return size_t{2} * session.lists().max_requests * session.geometry().layers;
  }

  void ScrambleLists(TestSession& session) {
    const ListTable lists = session.lists();
    const size_t count = ListCount(session);
    Scramble(lists.headers, count * sizeof *lists.headers);
    Scramble(lists.blocks, count * lists.max_blocks * sizeof *lists.blocks);
    Scramble(lists.masks, count * MaskWords(lists.max_blocks) * sizeof *lists.masks);
  }
  void Scramble(void* memory, size_t bytes) {
    const std::vector<std::byte> garbage(bytes, std::byte{0xc5});
    device_.Finish(device_->Copy(memory, garbage.data(), static_cast<int64_t>(bytes), {}));
  }

  template <typename T>
  std::vector<T> Fetch(const T* from, size_t count) {
    std::vector<T> out(count);
    device_.Finish(device_->Copy(out.data(), from, static_cast<int64_t>(count * sizeof(T)), {}));
    return out;
  }

  // What follows the last entry of a list that was made is nobody's.
  std::vector<std::byte> Lists(TestSession& session) {
    const ListTable lists = session.lists();
    const size_t count = ListCount(session);
    const int32_t words = MaskWords(lists.max_blocks);
    const std::vector<ListHeader> headers = Fetch(lists.headers, count);
    std::vector<int32_t> blocks = Fetch(lists.blocks, count * lists.max_blocks);
    std::vector<ListMask> masks = Fetch(lists.masks, count * words);
    for (size_t i = 0; i < count; ++i) {
      if (headers[i].stamp.epoch != TestSession::kEpoch) continue;
      const auto block = blocks.begin() + static_cast<std::ptrdiff_t>(i * lists.max_blocks);
      std::fill(block + headers[i].count, block + lists.max_blocks, kUntouched);
      const auto mask = masks.begin() + static_cast<std::ptrdiff_t>(i * words);
      std::fill(mask + MaskWords(headers[i].blocks), mask + words, ListMask{});
    }
    std::vector<std::byte> out = BytesOf(headers);
    for (const std::vector<std::byte>& part : {BytesOf(blocks), BytesOf(masks)}) {
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }

  template <typename T>
  static std::vector<std::byte> BytesOf(const std::vector<T>& values) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
    return {bytes, bytes + values.size() * sizeof(T)};
  }
};
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

// More rows than a GPU has multiprocessors, and than two for each of those.
TEST_P(SelectAndCompactTest, ManyRowsAreThoseOfTwoLaunches) {
  struct Size {
    int32_t requests;
    int64_t max_slots;
  };
  for (const Size& size : {Size{40, 9000}, Size{70, 9000}, Size{34, 140000}}) {
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

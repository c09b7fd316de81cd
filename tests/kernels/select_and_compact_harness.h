// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/compact.h"
#include "tests/kernels/test_session.h"

// Select and Compact in one launch or in two, and everything that they write.
namespace spin::kernels {

inline constexpr int32_t kUntouched = -99;

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

}  // namespace spin::kernels

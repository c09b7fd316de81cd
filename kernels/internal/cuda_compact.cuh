// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/compact.h"

// What Compact writes for one row of one layer.
namespace spin::kernels::internal {

class CompactedRow {
 public:
  __device__ CompactedRow(const CompactParams& p, int32_t index, int32_t layer)
      : params_(p), row_(p.rows[index]) {
    const int64_t at = int64_t{layer} * p.row_count + index;
    pages_ = p.block_table + int64_t{index} * p.table_stride;
    table_ = p.kept_table + at * p.table_stride;
    blocks_ = p.kept_blocks ? p.kept_blocks + at * p.table_stride : nullptr;
    slots_ = p.kept_slots + at * p.next_n_stride;
    context_ = row_.next_n == 0
                   ? 0
                   : ExtentOf(row_.position, static_cast<int32_t>(row_.next_n), p.geometry).blocks;
  }

  __device__ const Row& row() const { return row_; }
  __device__ int32_t context() const { return context_; }  // in blocks
  __device__ bool wants_list() const { return row_.request != kPaddingRow && context_ > 0; }
  __device__ int32_t PageOf(int32_t block) const { return pages_[block]; }

  __device__ void Write(int32_t j, int32_t block, int32_t page) const {
    table_[j] = page;
    if (blocks_) blocks_[j] = block;
  }

  // All threads: what remains if the first `count` blocks of the row were written. 0 of them: its
  // list does not serve, and all blocks are kept.
  template <int kThreads>
  __device__ void Finish(int32_t count) const {
    if (count == 0) {
      if (wants_list() && params_.unserved && threadIdx.x == 0) atomicAdd(params_.unserved, 1);
      count = context_;
      for (auto j = static_cast<int32_t>(threadIdx.x); j < context_; j += kThreads) {
        Write(j, j, PageOf(j));
      }
    }
    const auto draft = static_cast<int32_t>(threadIdx.x);
    if (draft < params_.next_n_stride) {
      const int64_t slots = VisibleSlots(row_.position + draft, params_.geometry.tokens_per_slot);
      const int64_t dropped = int64_t{context_ - count} * params_.geometry.block;
      slots_[draft] =
          draft < static_cast<int32_t>(row_.next_n) ? static_cast<int32_t>(slots - dropped) : 0;
    }
  }

 private:
  const CompactParams& params_;
  const Row row_;
  const int32_t* pages_;
  int32_t* table_;
  int32_t* blocks_;  // or null
  int32_t* slots_;
  int32_t context_;
};

}  // namespace spin::kernels::internal

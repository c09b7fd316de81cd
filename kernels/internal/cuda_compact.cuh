// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/compact.h"
#include "kernels/internal/cuda_tiles.cuh"

// What Compact writes for one row of one layer.
namespace spin::kernels::internal {

class CompactedRow {
 public:
  CompactedRow() = default;
  // Reads the row alone, so that it may be made before the kernel before has ended.
  __device__ CompactedRow(const CompactParams& p, int32_t index, int32_t layer)
      : row_(p.rows[index]),
        unserved_(p.unserved),
        next_n_stride_(p.next_n_stride),
        block_(p.geometry.block),
        tokens_per_slot_(p.geometry.tokens_per_slot) {
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
  __device__ const int32_t* pages() const { return pages_; }

  // Has the pages of a warp's tiles come closer.
  __device__ void PrefetchPages(Tiles tiles) const {
#pragma unroll 1
    for (int32_t tile = tiles.first + threadIdx.x % 32; tile < tiles.end; tile += 32) {
      PrefetchToL2(pages_ + tile * 32);
    }
  }

  __device__ void Write(int32_t j, int32_t block, int32_t page) const {
    table_[j] = page;
    if (blocks_) blocks_[j] = block;
  }
  // The same without a branch.
  __device__ void WriteIf(bool wanted, int32_t j, int32_t block, int32_t page) const {
    StoreIf(wanted, table_ + j, page);
    StoreIf(wanted && blocks_, blocks_ + j, block);
  }

  // All threads: the lengths, where `count` blocks are kept.
  __device__ void WriteSlots(int32_t count) const {
    const auto draft = static_cast<int32_t>(threadIdx.x);
    if (draft >= next_n_stride_) return;
    const int64_t slots = VisibleSlots(row_.position + draft, tokens_per_slot_);
    const int64_t dropped = int64_t{context_ - count} * block_;
    slots_[draft] =
        draft < static_cast<int32_t>(row_.next_n) ? static_cast<int32_t>(slots - dropped) : 0;
  }

  // All threads: the row whose list does not serve, or that has none.
  template <int kThreads>
  __device__ void KeepAll() const {
    if (wants_list() && unserved_ && threadIdx.x == 0) atomicAdd(unserved_, 1);
    for (auto j = static_cast<int32_t>(threadIdx.x); j < context_; j += kThreads) {
      Write(j, j, pages_[j]);
    }
    WriteSlots(context_);
  }

 private:
  Row row_;
  const int32_t* pages_;
  int32_t* table_;
  int32_t* blocks_;  // or null
  int32_t* slots_;
  int32_t* unserved_;  // or null
  int32_t next_n_stride_;
  int32_t block_;
  int32_t tokens_per_slot_;
  int32_t context_;
};

}  // namespace spin::kernels::internal

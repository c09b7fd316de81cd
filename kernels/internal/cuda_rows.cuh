// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/block_list.h"
#include "kernels/counters.h"
#include "kernels/ema.h"
#include "kernels/geometry.h"
#include "kernels/rows.h"
#include "kernels/state.h"

// What several CUDA kernels ask about a row.
namespace spin::kernels::internal {

__device__ inline void CountOn(uint64_t& total, int64_t more) {
  if (more != 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&total), static_cast<unsigned long long>(more));
  }
}

// Whether the row's list carries the stamp of the row's step.
__device__ inline bool HasStamp(const ListHeader& header, uint64_t epoch, uint32_t generation,
                                const ScoredRow& row) {
  const ListStamp stamp = header.stamp;
  const uint64_t difference = (stamp.epoch ^ epoch) | (stamp.generation ^ generation) |
                              (stamp.next_n ^ row.next_n) |
                              static_cast<uint64_t>(stamp.position ^ row.position);
  return difference == 0;
}

// Blocks of a row that were scored, 32 at a time, as bits and as a place in the row's scores.
struct ScoredBlocks {
  const ListMask* masks;  // null: all blocks
  int32_t max_blocks;     // no place is at or past this, whatever the masks say

  __device__ ListMask Word(int32_t word) const {
    if (!masks) return {UINT32_MAX, static_cast<uint32_t>(32 * word)};
    return masks[word];
  }
  // Where the scores of the block lie, in blocks; negative if it was not scored.
  __device__ int32_t Place(int32_t block) const {
    const ListMask word = Word(block / 32);
    const uint32_t below = (1u << block % 32) - 1;
    const int32_t place = static_cast<int32_t>(word.rank + __popc(word.kept & below));
    return word.kept >> block % 32 & 1 && place < max_blocks ? place : -1;
  }
};

template <typename S>
__device__ inline const S* ScoresOf(const ScoreView& scores, const ScoredRow& row, int32_t layer,
                                    uint32_t draft) {
  return static_cast<const S*>(scores.data) + layer * scores.layer_stride +
         row.score_row * scores.row_stride + draft * scores.draft_stride;
}

template <typename T>
__device__ inline T* VAt(const StateView& state, const RequestRecord& record, const Geometry& g,
                         int32_t layer, int64_t slot) {
  return reinterpret_cast<T*>(PageAt(state, record, slot / kPageSlots) + VOffset(g, layer, slot));
}

template <typename T>
__device__ inline T* DAt(const StateView& state, const RequestRecord& record, const Geometry& g,
                         int32_t layer, int64_t distance) {
  return reinterpret_cast<T*>(PageAt(state, record, distance / kPageSlots) +
                              DOffset(g, layer, distance));
}

__device__ inline PageSummary* SummaryAt(const StateView& state, const RequestRecord& record,
                                         const Geometry& g, int32_t layer, int64_t page) {
  return reinterpret_cast<PageSummary*>(PageAt(state, record, page) + SummaryOffset(g, layer));
}

}  // namespace spin::kernels::internal

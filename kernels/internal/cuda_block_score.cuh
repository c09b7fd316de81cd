// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/internal/cuda_rows.cuh"

// Predict, block by block, as Predict and Select both need it.
namespace spin::kernels::internal {

__device__ inline float WarpMax(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(~0u, value, step));
  }
  return value;
}

// S[j] from V and D, by a whole warp.
template <typename T>
__device__ inline float ScanBlock(const StateView& state, const RequestRecord& record,
                                  const Geometry& g, const Row& row, int32_t layer, int32_t block) {
  const int64_t last_position = row.position + row.next_n - 1;
  const int64_t last_slots = VisibleSlots(last_position, g.tokens_per_slot);
  float best = kUnobserved;
  for (int32_t k = threadIdx.x % 32; k < g.block; k += 32) {
    const int64_t slot = int64_t{block} * g.block + k;
    if (slot >= last_slots) break;
    best = fmaxf(best, ToFloat(*VAt<T>(state, record, g, layer, slot)));
    for (uint32_t draft = 0; draft < row.next_n; ++draft) {
      const int64_t position = row.position + draft;
      if (slot >= VisibleSlots(position, g.tokens_per_slot)) continue;
      const int64_t distance = QuerySlot(position, g.tokens_per_slot) - slot;
      best = fmaxf(best, ToFloat(*DAt<T>(state, record, g, layer, distance)));
    }
  }
  return WarpMax(best);
}

// Block scores of a row that the pages' summaries have; see SummaryServes.
struct SummaryScores {
  const StateView& state;
  const RequestRecord& record;
  const Geometry& g;
  int32_t layer;
  bool next;          // the row's query is one past the summary's ...
  uint16_t farthest;  // ... and this is D at the distance of slot 0, which no block had before

  __device__ BlockSummary Of(int32_t block) const {
    return SummaryAt(state, record, g, layer, block / 64)->blocks[block % 64];
  }
  __device__ static float Max(uint16_t a, uint16_t b) {
    return fmaxf(ToFloat(Bf16{a}), ToFloat(Bf16{b}));
  }
  // Of a free block.
  __device__ float operator[](int32_t block) const {
    const BlockSummary own = Of(block);
    if (!next) return Max(own.inner, own.last);
    return Max(own.inner, block == 0 ? farthest : Of(block - 1).last);
  }
};

// Whether the summary serves the row; then what it takes to ask it.
__device__ inline bool HasScores(const StateView& state, const RequestRecord& record,
                                 const Geometry& g, const Row& row, const RowExtent& extent,
                                 int32_t layer, bool* next, uint16_t* farthest) {
  if (!HasSummary(g) || extent.slots == 0) return false;
  const PageSummary* summary = SummaryAt(state, record, g, layer, 0);
  const int64_t query = QuerySlot(row.position, g.tokens_per_slot);
  if (!SummaryServes(summary->query, summary->slots, query, extent, row.next_n)) return false;
  *next = query != summary->query;
  // Within the state: slot 0 is visible to this query.
  *farthest = DAt<Bf16>(state, record, g, layer, query)->bits;
  return true;
}

}  // namespace spin::kernels::internal

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

}  // namespace spin::kernels::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/internal/cuda_block_score.cuh"
#include "kernels/select.h"

// Block scores as Select finds them by itself, a tile of 32 blocks at a time.
namespace spin::kernels::internal {

// The lane's block score in a tile straight from V and D, where pages have summaries but they do
// not serve. That is rare, so this way takes few registers. Whole warps.
template <typename T>
__device__ __noinline__ float ScanTileInTurn(const SelectParams& params, const Row& row,
                                             int32_t layer, int32_t end, int32_t tile) {
  const SelectParams p = Bound(params);
  const RequestRecord& record = p.state.records[row.request];
  float mine = kUnobserved;
  for (int32_t block = tile * 32; block < min(tile * 32 + 32, end); ++block) {
    const float score = ScanBlock<T>(p.state, record, p.geometry, row, layer, block);
    if (static_cast<int32_t>(threadIdx.x % 32) == block % 32) mine = score;
  }
  return mine;
}

// The same where pages have no summaries, so that it is always done: eight lanes share a block, so
// that many loads are in flight.
template <typename T>
__device__ __noinline__ float ScanTile(const SelectParams& params, const Row& row, int32_t layer,
                                       int32_t end, int32_t tile) {
  const SelectParams p = Bound(params);
  const RequestRecord& record = p.state.records[row.request];
  const Geometry& g = p.geometry;
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  const int64_t last_seen = VisibleSlots(row.position + row.next_n - 1, g.tokens_per_slot);
  float mine = kUnobserved;
  for (int32_t i = 0; i < 32 && tile * 32 + i < end; i += 4) {
    const int64_t first = int64_t{tile * 32 + i + lane / 8} * g.block;
    float best = kUnobserved;
    const auto scan = [&](int64_t seen, const auto& at) {
      const int64_t last = min(first + g.block, seen);
#pragma unroll 8
      for (int64_t slot = first + lane % 8; slot < last; slot += 8) {
        best = fmaxf(best, ToFloat(*at(slot)));
      }
    };
    scan(last_seen, [&](int64_t slot) { return VAt<T>(p.state, record, g, layer, slot); });
    for (uint32_t draft = 0; draft < row.next_n; ++draft) {
      const int64_t position = row.position + draft;
      const int64_t query = QuerySlot(position, g.tokens_per_slot);
      scan(VisibleSlots(position, g.tokens_per_slot),
           [&](int64_t slot) { return DAt<T>(p.state, record, g, layer, query - slot); });
    }
#pragma unroll
    for (int step = 1; step < 8; step *= 2) {
      best = fmaxf(best, __shfl_xor_sync(~0u, best, step));
    }
    const float other = __shfl_sync(~0u, best, lane % 4 * 8);
    if (lane / 4 == i / 4) mine = other;
  }
  return mine;
}

}  // namespace spin::kernels::internal

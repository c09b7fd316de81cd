// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_launch.h"
#include "kernels/internal/cuda_largest.cuh"
#include "kernels/internal/cuda_load.h"
#include "kernels/internal/cuda_rows.cuh"
#include "kernels/internal/order_key.h"

// Audit: a thread block for each (layer, row), which takes its verifier rows one after the other.
// Rare, so it is written for plainness: the scores are read again for every histogram.
namespace spin::kernels {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;

struct AuditShared {
  internal::LargestShared<kThreads> largest;
  uint32_t warp_counts[kWarps];
  int32_t missed;
};

// Top-K slots of one verifier row that lie outside the list. A warp owns a contiguous range of
// slots, so that of equal scores the lower slots count.
template <typename S>
__device__ int32_t MissedOf(AuditShared& shared, const S* scores, int64_t slots, int32_t k,
                            const Geometry& g, const internal::ScoredBlocks& kept) {
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int64_t share = ((slots + kWarps - 1) / kWarps + 31) / 32 * 32;
  const int64_t first = warp * share;
  const int64_t end = min(first + share, slots);  // may lie before `first`
  const auto each = [&](const auto& use) {
    for (int64_t i = first + lane; i < end; i += 32) use(internal::OrderKey(ToFloat(scores[i])));
  };
  internal::Prepare(shared.largest);
  __syncthreads();
  uint32_t low = UINT32_MAX;
  uint32_t high = 0;
  each([&](uint32_t key) {
    low = min(low, key);
    high = max(high, key);
  });
  const internal::Threshold last =
      internal::FindThreshold(shared.largest, static_cast<uint32_t>(k), low, high, each);
  uint32_t ties = 0;
  for (int64_t i = first + lane; i < end; i += 32) {
    ties += internal::OrderKey(ToFloat(scores[i])) == last.key ? 1 : 0;
  }
  ties = __reduce_add_sync(~0u, ties);
  if (lane == 0) shared.warp_counts[warp] = ties;
  if (threadIdx.x == 0) shared.missed = 0;
  __syncthreads();
  uint32_t before = __reduce_add_sync(~0u, lane < warp ? shared.warp_counts[lane] : 0u);
  int32_t missed = 0;
  for (int64_t tile = first; tile < end; tile += 32) {
    const int64_t i = tile + lane;
    const uint32_t key = i < end ? internal::OrderKey(ToFloat(scores[i])) : 0;
    const uint32_t tied = __ballot_sync(~0u, i < end && key == last.key);
    const bool taken = key == last.key && before + __popc(tied & ((1u << lane) - 1)) < last.ties;
    before += __popc(tied);
    if (i < end && (key > last.key || taken)) {
      missed += kept.Place(static_cast<int32_t>(i / g.block)) < 0 ? 1 : 0;
    }
  }
  atomicAdd(&shared.missed, missed);
  __syncthreads();
  missed = shared.missed;
  __syncthreads();
  return missed;
}

// Grid: (rows, layers).
template <typename S>
__global__ void __launch_bounds__(kThreads) AuditKernel(const __grid_constant__ AuditParams params) {
  const AuditParams p = BoundToCount(params);
  __shared__ AuditShared shared;
  const ScoredRow row = p.rows[blockIdx.x];
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.y);
  AuditResult result = {0, 0};
  bool audited = false;
  if (row.request != kPaddingRow && row.coverage == Coverage::kAll) {
    const ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
    audited = internal::HasStamp(header, p.epoch, p.state.records[row.request].generation, row);
  }
  if (audited) {
    const internal::ScoredBlocks kept = {p.lists.Masks(row.buffer, row.request, layer),
                                         p.lists.max_blocks};
    for (uint32_t draft = 0; draft < row.accepted; ++draft) {
      const int64_t slots = VisibleSlots(row.position + draft, p.geometry.tokens_per_slot);
      const auto k = static_cast<int32_t>(min(int64_t{p.geometry.topk}, slots));
      if (k == 0) continue;
      result.topk += k;
      result.missed += MissedOf<S>(shared, internal::ScoresOf<S>(p.scores, row, layer, draft),
                                   slots, k, p.geometry, kept);
    }
  }
  if (threadIdx.x != 0) return;
  if (audited) {
    internal::CountOn(p.counters[layer].audited_rows, row.accepted);
    internal::CountOn(p.counters[layer].audit_topk_slots, result.topk);
    internal::CountOn(p.counters[layer].audit_missed_slots, result.missed);
  }
  if (p.results) p.results[int64_t{layer} * p.row_count + blockIdx.x] = result;
}

}  // namespace

cudaError_t AuditCuda(const AuditParams& p, cudaStream_t stream) {
  if (p.row_count == 0 || p.layers.count == 0) return cudaSuccess;
  const dim3 grid(p.row_count, p.layers.count);
  if (p.scores.dtype == Dtype::kF32) {
    AuditKernel<float><<<grid, kThreads, 0, stream>>>(p);
  } else {
    AuditKernel<Bf16><<<grid, kThreads, 0, stream>>>(p);
  }
  return cudaGetLastError();
}

cudaError_t internal::LoadAuditCuda() { return Load(AuditKernel<float>, AuditKernel<Bf16>); }

}  // namespace spin::kernels

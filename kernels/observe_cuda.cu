// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_launch.h"
#include "kernels/internal/cuda_load.h"
#include "kernels/internal/cuda_observed.cuh"
#include "kernels/internal/cuda_scan.h"
#include "kernels/internal/cuda_start.h"

// Observe for every geometry without a PageSummary: a thread for each slot. One launch for each
// verifier row, because the next one meets the same entries of D from other slots.
namespace spin::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kSlotsPerThread = 4;
constexpr int kSlotsPerCta = kThreads * kSlotsPerThread;

template <typename T, typename S>
__device__ bool ObserveSlot(const ObserveParams& p, const RequestRecord& record, int32_t layer,
                            int64_t slot, int64_t query, float score) {
  T& v = *internal::VAt<T>(p.state, record, p.geometry, layer, slot);
  T& d = *internal::DAt<T>(p.state, record, p.geometry, layer, query - slot);
  const float share = p.weights.now * score;
  bool ignored = false;
  v = internal::NextEntry(v, score, share, p.weights.past, ignored);
  d = internal::NextEntry(d, score, share, p.weights.past, ignored);
  return ignored;
}

// Grid: (slots, rows, layers).
template <typename T, typename S>
__global__ void __launch_bounds__(kThreads)
    ObserveKernel(const __grid_constant__ ObserveParams params, uint32_t draft) {
  const ObserveParams p = BoundToObserve(params);
  const ScoredRow row = p.rows[blockIdx.y];
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.z);
  const internal::Observed observed = internal::ObservedRow(p, row, layer, draft);
  if (!observed.taken) return;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    internal::CountObserved(p, row, layer, draft, observed);
  }
  if (!observed.any) return;
  const RequestRecord& record = p.state.records[row.request];
  const S* scores = internal::ScoresOf<S>(p.scores, row, layer, draft);
  const int32_t block_slots = p.geometry.block;
  int ignored = 0;
  for (int i = 0; i < kSlotsPerThread; ++i) {
    const int64_t slot = int64_t{blockIdx.x} * kSlotsPerCta + i * kThreads + threadIdx.x;
    if (slot >= observed.slots) break;
    const auto block = static_cast<int32_t>(slot / block_slots);
    const int32_t place = observed.blocks.Place(block);
    if (place < 0) continue;
    const float score = ToFloat(scores[int64_t{place} * block_slots + slot % block_slots]);
    ignored += ObserveSlot<T, S>(p, record, layer, slot, observed.query, score) ? 1 : 0;
  }
  internal::CountOn(p.counters[layer].nonfinite_scores, ignored);
}

using Kernel = void (*)(ObserveParams, uint32_t);

Kernel KernelFor(Dtype state, Dtype scores) {
  if (state == Dtype::kF32) {
    return scores == Dtype::kF32 ? ObserveKernel<float, float> : ObserveKernel<float, Bf16>;
  }
  return scores == Dtype::kF32 ? ObserveKernel<Bf16, float> : ObserveKernel<Bf16, Bf16>;
}

cudaError_t ObserveDraft(const ObserveParams& p, uint32_t draft, cudaStream_t stream) {
  const int64_t slots = int64_t{p.max_blocks} * p.geometry.block;
  const dim3 grid(static_cast<uint32_t>((slots + kSlotsPerCta - 1) / kSlotsPerCta), p.row_count,
                  p.layers.count);
  return internal::Launch(KernelFor(p.geometry.state, p.scores.dtype), grid, kThreads, stream, p,
                          draft);
}

}  // namespace

cudaError_t ObserveCuda(const ObserveParams& p, cudaStream_t stream) {
  if (p.row_count == 0 || p.layers.count == 0 || p.max_blocks == 0) return cudaSuccess;
  if (HasSummary(p.geometry)) return internal::ScanCuda(p, stream);
  for (int32_t draft = 0; draft < p.max_next_n; ++draft) {
    const cudaError_t error = ObserveDraft(p, draft, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t internal::LoadObserveCuda() {
  return Load(ObserveKernel<float, float>, ObserveKernel<float, Bf16>, ObserveKernel<Bf16, float>,
              ObserveKernel<Bf16, Bf16>);
}

}  // namespace spin::kernels

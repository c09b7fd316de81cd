// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_launch.h"
#include "kernels/internal/cuda_load.h"
#include "kernels/internal/cuda_rows.cuh"
#include "kernels/internal/cuda_start.h"

// A copy at the speed of the memory: four elements to a thread and access wherever the addresses
// allow it.
namespace spin::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kVectorsPerThread = 8;
constexpr int64_t kSlotsPerCta = kThreads * 4 * kVectorsPerThread;

template <typename T>
struct alignas(4 * sizeof(T)) Four {
  T at[4];
};

template <typename T>
__device__ bool TakesFour(const T* address) {
  return reinterpret_cast<uintptr_t>(address) % sizeof(Four<T>) == 0;
}

// Grid: (slots, verifier rows of rows, layers).
template <typename To, typename From>
__global__ void __launch_bounds__(kThreads) StageKernel(const __grid_constant__ StageParams p) {
  const auto drafts = static_cast<uint32_t>(p.next_n_stride);
  const ScoredRow row = p.rows[blockIdx.y / drafts];
  const uint32_t draft = blockIdx.y % drafts;
  if (row.request == kPaddingRow || draft >= row.next_n) return;
  ScoreView staged = p.staged;
  if (p.binding) staged.data = p.binding->staging;
  if (staged.data == nullptr) return;
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.z);
  const int64_t kept =
      p.kept_slots[(int64_t{layer} * p.row_count + row.score_row) * drafts + draft];
  const int64_t first = blockIdx.x * kSlotsPerCta;
  const int64_t end = min(min(kept, p.max_slots), first + kSlotsPerCta);
  const From* const in = internal::ScoresOf<From>(p.scores, row, layer, draft);
  To* const out = const_cast<To*>(internal::ScoresOf<To>(staged, row, layer, draft));
  if (!TakesFour(in) || !TakesFour(out)) {
    for (int64_t c = first + threadIdx.x; c < end; c += kThreads) {
      out[c] = StagedScore<To>(in[c]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kVectorsPerThread; ++i) {
    const int64_t c = first + (int64_t{i} * kThreads + threadIdx.x) * 4;
    if (c + 4 <= end) {
      const Four<From> from = *reinterpret_cast<const Four<From>*>(in + c);
      Four<To> to;
      for (int k = 0; k < 4; ++k) to.at[k] = StagedScore<To>(from.at[k]);
      *reinterpret_cast<Four<To>*>(out + c) = to;
    } else {
      for (int64_t k = c; k < end; ++k) out[k] = StagedScore<To>(in[k]);
    }
  }
}

using Kernel = void (*)(StageParams);

Kernel KernelFor(Dtype from, Dtype to) {
  if (from == Dtype::kF32) {
    return to == Dtype::kF32 ? StageKernel<float, float> : StageKernel<Bf16, float>;
  }
  return to == Dtype::kF32 ? StageKernel<float, Bf16> : StageKernel<Bf16, Bf16>;
}

}  // namespace

cudaError_t StageCuda(const StageParams& p, cudaStream_t stream) {
  if (p.row_count == 0 || p.layers.count == 0 || p.max_slots == 0) return cudaSuccess;
  const dim3 grid(static_cast<uint32_t>((p.max_slots + kSlotsPerCta - 1) / kSlotsPerCta),
                  p.row_count * p.next_n_stride, p.layers.count);
  return internal::Launch(KernelFor(p.scores.dtype, p.staged.dtype), grid, kThreads, stream, p);
}

cudaError_t internal::LoadStageCuda() {
  return Load(StageKernel<float, float>, StageKernel<float, Bf16>, StageKernel<Bf16, float>,
              StageKernel<Bf16, Bf16>);
}

}  // namespace spin::kernels

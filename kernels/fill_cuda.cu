// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "kernels/cuda_launch.h"
#include "kernels/ema.h"
#include "kernels/internal/cuda_load.h"
#include "kernels/internal/cuda_start.h"
#include "kernels/state.h"

namespace spin::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kCtasPerPage = 64;
constexpr int kPagesPerLaunch = 128;  // their offsets travel as an argument: no device memory

struct Pages {
  uint32_t offsets[kPagesPerLaunch];
};

// Grid: (kCtasPerPage, pages). Every element of a page, summaries included, gets the same pattern.
__global__ void __launch_bounds__(kThreads)
    FillKernel(std::byte* slab, const __grid_constant__ Pages pages, int64_t page_vectors,
               uint32_t pattern) {
  auto* const page =
      reinterpret_cast<uint4*>(slab + uint64_t{pages.offsets[blockIdx.y]} * kPageOffsetUnit);
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < page_vectors;
       i += kCtasPerPage * kThreads) {
    page[i] = {pattern, pattern, pattern, pattern};
  }
}

uint32_t PatternFor(Dtype state, float value) {
  if (state == Dtype::kF32) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  return FromFloat<Bf16>(value).bits * 0x10001u;
}

}  // namespace

cudaError_t FillCuda(const FillParams& p, cudaStream_t stream) {
  const uint32_t pattern = PatternFor(p.geometry.state, p.zero_init ? 0.0f : kUnobserved);
  const int64_t vectors = PageBytes(p.geometry) / int64_t{sizeof(uint4)};
  for (int32_t first = 0; first < p.page_count; first += kPagesPerLaunch) {
    const int32_t count = std::min(kPagesPerLaunch, p.page_count - first);
    Pages pages = {};
    std::copy_n(p.pages + first, count, pages.offsets);
    const cudaError_t error = internal::Launch(FillKernel, dim3(kCtasPerPage, count), kThreads,
                                               stream, p.slab, pages, vectors, pattern);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t internal::LoadFillCuda() { return Load(FillKernel); }

}  // namespace spin::kernels

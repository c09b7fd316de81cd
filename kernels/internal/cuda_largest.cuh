// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

// The k-th largest of many 32-bit keys, by a whole thread block: histograms of 2048 bins, first
// over the range that the keys span, then over the one bin that holds the k-th.
namespace spin::kernels::internal {

constexpr int kBins = 2048;
constexpr uint32_t kMostNear = 0xffff;  // FindNear is for keys up to this; larger ones are none

// The k-th largest key, and how many of the keys equal to it are among the k largest.
struct Threshold {
  uint32_t key;
  uint32_t ties;
};

template <int kThreads>
struct LargestShared {
  uint32_t histogram[kBins];
  uint32_t sums[kThreads / 32];  // of the bins of each warp
  uint32_t low;                  // UINT32_MAX until FindThreshold
  uint32_t high;                 // 0 until then
  uint32_t bin;
  uint32_t rest;
};

// Where the bins are, for CountIf; opaque, or nvcc would compute it anew for every key.
template <int kThreads>
__device__ inline uint32_t BinsOf(const LargestShared<kThreads>& shared) {
  auto at = static_cast<uint32_t>(__cvta_generic_to_shared(shared.histogram));
  asm volatile("" : "+r"(at));
  return at;
}

__device__ inline void CountIf(bool count, uint32_t bins, uint32_t bin) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.s32 p, %0, 0;\n"
      "@p red.shared.add.u32 [%1], 1;\n"
      "}" ::"r"(static_cast<int>(count)),
      "r"(bins + bin * 4)
      : "memory");
}

// Makes `shared` ready for FindThreshold; a barrier must follow.
template <int kThreads>
__device__ inline void Prepare(LargestShared<kThreads>& shared) {
  auto* const bins = reinterpret_cast<uint4*>(shared.histogram);
  for (int i = threadIdx.x; i < kBins / 4; i += kThreads) bins[i] = {0, 0, 0, 0};
  if (threadIdx.x == 0) {
    shared.low = UINT32_MAX;
    shared.high = 0;
  }
}

// The bin that holds the k-th largest entry of the histogram, and its rank from the top inside that
// bin, into shared.bin and shared.rest. All threads, after a barrier; ends with one.
template <int kThreads>
__device__ inline void FindBin(LargestShared<kThreads>& shared, uint32_t k) {
  constexpr int kEach = kBins / kThreads;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  // The first thread has the highest bins.
  const int first = kBins - (static_cast<int>(threadIdx.x) + 1) * kEach;
  uint32_t counts[kEach];
  uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; i += 2) {
    const uint2 pair = *reinterpret_cast<const uint2*>(&shared.histogram[first + i]);
    counts[i] = pair.x;
    counts[i + 1] = pair.y;
    sum += pair.x + pair.y;
  }
  const uint32_t warp_sum = __reduce_add_sync(~0u, sum);
  if (lane == 0) shared.sums[warp] = warp_sum;
  __syncthreads();
  const uint32_t before = __reduce_add_sync(~0u, lane < warp ? shared.sums[lane] : 0);
  if (before < k && k <= before + warp_sum) {
    uint32_t upto = sum;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, upto, step);
      if (lane >= step) upto += other;
    }
    uint32_t rest = k - before - (upto - sum);
    if (rest - 1 < sum) {  // neither in the bins before nor after
      int bin = first + kEach - 1;
#pragma unroll
      for (int i = kEach - 1; i > 0; --i) {
        if (bin == first + i && rest > counts[i]) {
          rest -= counts[i];
          --bin;
        }
      }
      shared.bin = static_cast<uint32_t>(bin);
      shared.rest = rest;
    }
  }
  __syncthreads();
}

// The k-th largest key if it is one of the 2046 around `near`: one level then, whatever the range
// of the keys. Says whether it was found; if not, `shared` is ready for FindThreshold. `each` and k
// as there.
template <int kThreads, typename Each>
__device__ inline bool FindNear(LargestShared<kThreads>& shared, uint32_t k, uint32_t near,
                                const Each& each, Threshold& found) {
  const auto base = static_cast<int32_t>(near) - kBins / 2;
  const uint32_t bins = BinsOf(shared);
  each([&](uint32_t key) {
    const int32_t bin = min(max(static_cast<int32_t>(key) - base, 0), kBins - 1);
    CountIf(key <= kMostNear, bins, static_cast<uint32_t>(bin));
  });
  __syncthreads();
  FindBin(shared, k);
  const auto bin = static_cast<int32_t>(shared.bin);
  found = {static_cast<uint32_t>(base + bin), shared.rest};
  if (bin > 0 && bin < kBins - 1) return true;
  Prepare(shared);
  __syncthreads();
  return false;
}

// `each(use)` must call use(key) for every key of the calling thread, the same keys each time, and
// perhaps for others above the largest; k is at least 1 and at most the number of all keys; low and
// high are the smallest and the largest of the thread's keys. All threads, after Prepare and a
// barrier; ends with a barrier.
template <int kThreads, typename Each>
__device__ inline Threshold FindThreshold(LargestShared<kThreads>& shared, uint32_t k, uint32_t low,
                                          uint32_t high, const Each& each) {
  low = __reduce_min_sync(~0u, low);
  high = __reduce_max_sync(~0u, high);
  if (threadIdx.x % 32 == 0) {
    atomicMin(&shared.low, low);
    atomicMax(&shared.high, high);
  }
  __syncthreads();
  low = shared.low;
  high = shared.high;
  int shift = max(0, 21 - __clz((high - low) | 1));  // (high - low) >> shift is below 2048
  for (;;) {
    const uint32_t span = high - low;
    const uint32_t bins = BinsOf(shared);
    each([&](uint32_t key) { CountIf(key - low <= span, bins, (key - low) >> shift); });
    __syncthreads();
    FindBin(shared, k);
    low += shared.bin << shift;
    k = shared.rest;
    if (shift == 0) return {low, k};
    high = low + ((1u << shift) - 1);
    shift = max(0, shift - 11);
    Prepare(shared);
    __syncthreads();
  }
}

}  // namespace spin::kernels::internal

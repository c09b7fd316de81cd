// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cub/block/block_scan.cuh>

#include <cstdint>

// The k-th largest of many 32-bit keys, by a whole thread block: histograms of 2048 bins, first
// over the range that the keys span, then over the one bin that holds the k-th.
namespace spin::kernels::internal {

constexpr int kBins = 2048;

// The k-th largest key, and how many of the keys equal to it are among the k largest.
struct Threshold {
  uint32_t key;
  uint32_t ties;
};

template <int kThreads>
struct LargestShared {
  using Scan = cub::BlockScan<uint32_t, kThreads, cub::BLOCK_SCAN_WARP_SCANS>;
  uint32_t histogram[kBins];
  typename Scan::TempStorage scan;
  uint32_t low;   // UINT32_MAX until FindThreshold
  uint32_t high;  // 0 until then
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
  const int top = kBins - 1 - static_cast<int>(threadIdx.x) * kEach;
  uint32_t counts[kEach];
  uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    counts[i] = shared.histogram[top - i];
    sum += counts[i];
  }
  uint32_t before;
  typename LargestShared<kThreads>::Scan(shared.scan).ExclusiveSum(sum, before);
  if (before < k && k <= before + sum) {
    uint32_t rest = k - before;
    uint32_t bin = 0;
    bool found = false;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (!found && rest <= counts[i]) {
        bin = static_cast<uint32_t>(top - i);
        found = true;
      }
      if (!found) rest -= counts[i];
    }
    shared.bin = bin;
    shared.rest = rest;
  }
  __syncthreads();
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

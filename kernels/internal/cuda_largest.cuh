// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

// The k-th largest of many 32-bit keys, by a whole thread block: histograms of 2048 bins, first
// over the range that the keys span, then over the one bin that holds the k-th.
namespace spin::kernels::internal {

constexpr int kBins = 2048;    // of a level
constexpr int kNoBin = kBins;  // what is not to be counted goes there: a branch would cost more

// The k-th largest key, and how many of the keys equal to it are among the k largest.
struct Threshold {
  uint32_t key;
  uint32_t ties;
};

template <int kThreads>
struct LargestShared {
  alignas(16) uint32_t histogram[kBins + 1];
  uint32_t sums[kThreads / 32];  // of the bins of each warp
  uint32_t low;                  // UINT32_MAX until FindThreshold
  uint32_t high;                 // 0 until then
  uint32_t bin;
  uint32_t rest;
};

// Where the bins are, for Count; opaque, or nvcc would compute it anew for every key.
template <int kThreads>
__device__ inline uint32_t BinsOf(const LargestShared<kThreads>& shared) {
  auto at = static_cast<uint32_t>(__cvta_generic_to_shared(shared.histogram));
  asm volatile("" : "+r"(at));
  return at;
}

__device__ inline void Count(uint32_t bins, uint32_t bin) {
  asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(bins + bin * 4) : "memory");
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

// The bin that holds the k-th largest entry of the histogram's first kOf bins, and its rank from
// the top inside that bin, into shared.bin and shared.rest. All threads, after a barrier; ends with
// one.
template <int kOf = kBins, int kThreads>
__device__ inline void FindBin(LargestShared<kThreads>& shared, uint32_t k) {
  constexpr int kEach = kOf / kThreads;
  static_assert(kEach % 2 == 0, "bins are read in pairs");
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  // The first thread has the highest bins.
  const int first = kOf - (static_cast<int>(threadIdx.x) + 1) * kEach;
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

// The k-th largest key if it is one of the few hundred around `near`, which is below 2^31: one
// level then, whatever the range of the keys. Says whether it was found; if not, `shared` is ready
// for FindThreshold. `each` and k as there, and keys are below 2^31 or no key at all.
template <int kThreads, typename Each>
__device__ inline bool FindNear(LargestShared<kThreads>& shared, uint32_t k, uint32_t near,
                                const Each& each, Threshold& found) {
  constexpr int kNear = kThreads < 256 ? 512 : 2 * kThreads;  // few, as all of them are looked at
  const int32_t base = max(static_cast<int32_t>(near) - kNear / 2, 0);
  const uint32_t bins = BinsOf(shared);
  each([&](uint32_t key) {
    // What is past either end is in the last bin there, and so are those that are no keys.
    Count(bins,
          static_cast<uint32_t>(__viaddmin_s32_relu(static_cast<int32_t>(key), -base, kNear - 1)));
  });
  __syncthreads();
  FindBin<kNear>(shared, k);
  const auto bin = static_cast<int32_t>(shared.bin);
  found = {static_cast<uint32_t>(base + bin), shared.rest};
  if (bin > 0 && bin < kNear - 1) return true;
  Prepare(shared);
  __syncthreads();
  return false;
}

// `each(use)` must call use(key) for every key of the calling thread, the same keys each time, and
// perhaps with 0 or UINT32_MAX, which are no keys; k is at least 1 and at most the number of all
// keys. All threads, after Prepare and a barrier; ends with a barrier.
template <int kThreads, typename Each>
__device__ inline Threshold FindThreshold(LargestShared<kThreads>& shared, uint32_t k,
                                          const Each& each) {
  // One off, so that what is no key wraps around and is past no key.
  uint32_t low = UINT32_MAX;
  uint32_t high = 0;
  each([&](uint32_t key) {
    low = min(low, key - 1);
    high = max(high, key + 1);
  });
  low = __reduce_min_sync(~0u, low);
  high = __reduce_max_sync(~0u, high);
  if (threadIdx.x % 32 == 0) {
    atomicMin(&shared.low, low);
    atomicMax(&shared.high, high);
  }
  __syncthreads();
  low = shared.low + 1;
  high = shared.high - 1;
  int shift = max(0, 21 - __clz((high - low) | 1));  // (high - low) >> shift is below 2048
  for (;;) {
    const uint32_t span = high - low;
    const uint32_t bins = BinsOf(shared);
    each([&](uint32_t key) {
      const uint32_t bin = (key - low) >> shift;
      Count(bins, key - low <= span ? bin : kNoBin);
    });
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

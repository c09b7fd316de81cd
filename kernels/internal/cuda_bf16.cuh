// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

// Two bf16 numbers in one word, as the fast kernels handle them.
namespace spin::kernels::internal {

__device__ inline uint32_t MaxOf(uint32_t a, uint32_t b) {  // of both bf16 halves
  uint32_t out;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
  return out;
}

// sum + 0 * x of both halves: NaN from the first x on that is not finite.
__device__ inline uint32_t AddZeroTimes(uint32_t x, uint32_t sum) {
  uint32_t out;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(x), "r"(0), "r"(sum));
  return out;
}

__device__ inline float LowHalf(uint32_t x) { return __uint_as_float(x << 16); }
__device__ inline float HighHalf(uint32_t x) { return __uint_as_float(x & 0xffff0000u); }

__device__ inline uint32_t Pack(float low, float high) {
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

}  // namespace spin::kernels::internal

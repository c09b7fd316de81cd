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

// Both halves of x as integers in the order of the numbers; -0 and +0 are equal. Not for NaN. Each
// is the upper half of OrderKey of the same number.
__device__ inline uint32_t OrderKeys(uint32_t x) {
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(x) : "r"(x), "r"(0x3f803f80), "r"(0));  // -0 to +0
  uint32_t negative;  // all bits of the halves that are
  asm("prmt.b32 %0, %1, %1, 0xbb99;" : "=r"(negative) : "r"(x));
  return x ^ (negative | 0x80008000u);
}

__device__ inline float LowHalf(uint32_t x) { return __uint_as_float(x << 16); }
__device__ inline float HighHalf(uint32_t x) { return __uint_as_float(x & 0xffff0000u); }

__device__ inline uint32_t Pack(float low, float high) {
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

}  // namespace spin::kernels::internal

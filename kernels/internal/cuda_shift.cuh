// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

// Windows of 8 bf16 elements that start `shift` elements into an aligned vector of 8, the same
// shift for all lanes of a warp; and the copies and stores that go with them.
namespace spin::kernels::internal {

__device__ inline void CopyAsync16(uint32_t shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most kLater groups of copies are under way.
template <int kLater>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
}

// nvcc would split it.
__device__ inline void StoreVector(void* to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

__device__ inline void LoadShared16(uint32_t at, uint32_t out[4]) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at)
               : "memory");
}

__device__ inline void LoadShared8(uint32_t at, uint32_t out[2]) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(out[0]), "=r"(out[1])
               : "r"(at)
               : "memory");
}

template <int kWord>
__device__ inline void WindowFrom(const uint32_t (&both)[8], int shift, uint32_t out[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[i] = __funnelshift_r(both[kWord + i], both[kWord + i + 1], 16 * (shift & 1));
  }
}

// The window that starts in the vector at this address in shared memory.
__device__ inline void Window(uint32_t at, int shift, uint32_t out[4]) {
  uint32_t both[8];
  LoadShared16(at, both);
  LoadShared16(at + 16, both + 4);
  switch (shift >> 1) {
    case 0:
      return WindowFrom<0>(both, shift, out);
    case 1:
      return WindowFrom<1>(both, shift, out);
    case 2:
      return WindowFrom<2>(both, shift, out);
    default:
      return WindowFrom<3>(both, shift, out);
  }
}

// StoreWindows for shifts of kWord words and perhaps one element.
template <int kWord>
__device__ inline void StoreFrom(const uint32_t window[4], int shift, std::byte* at, std::byte* end,
                                 bool store, bool store_first, bool store_end) {
  const int lane = threadIdx.x % 32;
  const bool odd = shift & 1;
  // The last elements of the lane before, then this lane's first ones.
  uint32_t both[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i >= 3 - kWord) both[i] = __shfl_sync(~0u, window[i], (lane + 31) & 31);
    both[4 + i] = window[i];
  }
  uint32_t out[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[i] = __funnelshift_rc(both[3 - kWord + i], both[4 - kWord + i], odd ? 16 : 32);
  }
  if (lane > 0) {
    if (store) StoreVector(at, out[0], out[1], out[2], out[3]);
    return;
  }
  // Lane 0 turned the warp's last elements into its first vector: they belong behind the warp's
  // last one.
  if (store_first) {
    if (odd) {
      reinterpret_cast<uint16_t*>(at)[2 * kWord + 1] = static_cast<uint16_t>(out[kWord] >> 16);
    } else {
      reinterpret_cast<uint32_t*>(at)[kWord] = out[kWord];
    }
#pragma unroll
    for (int i = kWord + 1; i < 4; ++i) reinterpret_cast<uint32_t*>(at)[i] = out[i];
  }
  if (store_end) {
#pragma unroll
    for (int i = 0; i < kWord; ++i) reinterpret_cast<uint32_t*>(end)[i] = out[i];
    if (odd) reinterpret_cast<uint16_t*>(end)[2 * kWord] = static_cast<uint16_t>(out[kWord]);
  }
}

// Stores the windows of a whole warp, whose lanes follow one another, as aligned vectors. `at` is
// the vector that the lane's window starts in, `end` lane 0's plus 32; `store` says whether to
// store it, for lanes other than 0; `store_first` and `store_end` whether lane 0 stores the warp's
// part of the first vector and of `end`.
__device__ inline void StoreWindows(const uint32_t window[4], int shift, std::byte* at,
                                    std::byte* end, bool store, bool store_first, bool store_end) {
  switch (shift >> 1) {
    case 0:
      return StoreFrom<0>(window, shift, at, end, store, store_first, store_end);
    case 1:
      return StoreFrom<1>(window, shift, at, end, store, store_first, store_end);
    case 2:
      return StoreFrom<2>(window, shift, at, end, store, store_first, store_end);
    default:
      return StoreFrom<3>(window, shift, at, end, store, store_first, store_end);
  }
}

}  // namespace spin::kernels::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

// Windows of 8 bf16 elements that start `shift` elements into an aligned vector of 8, the same
// shift for all lanes of a warp; and the copies and stores that go with them.
namespace spin::kernels::internal {

// These take a condition so that no branch is needed.
__device__ inline void CopyAsync16If(bool wanted, uint32_t shared, const void* global) {
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %0, 0;"
      " @p cp.async.cg.shared.global [%1], [%2], 16; }" ::"r"(uint32_t{wanted}),
      "r"(shared), "l"(global)
      : "memory");
}

template <int kBytes>
__device__ inline void CopyAsyncIf(bool wanted, uint32_t shared, const void* global) {
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %0, 0;"
      " @p cp.async.ca.shared.global [%1], [%2], %3; }" ::"r"(uint32_t{wanted}),
      "r"(shared), "l"(global), "n"(kBytes)
      : "memory");
}

__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most kLater groups of copies are under way.
template <int kLater>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
}

// nvcc would split it.
__device__ inline void StoreVectorIf(bool wanted, void* to, const uint32_t (&vector)[4]) {
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %0, 0;"
      " @p st.global.v4.b32 [%1], {%2, %3, %4, %5}; }" ::"r"(uint32_t{wanted}),
      "l"(to), "r"(vector[0]), "r"(vector[1]), "r"(vector[2]), "r"(vector[3])
      : "memory");
}

__device__ inline void LoadShared16(uint32_t at, uint32_t out[4]) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at)
               : "memory");
}

__device__ inline void StoreShared16(uint32_t at, const uint32_t (&in)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(in[0]), "r"(in[1]),
               "r"(in[2]), "r"(in[3])
               : "memory");
}

__device__ inline uint32_t LoadShared4(uint32_t at) {
  uint32_t out;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(out) : "r"(at) : "memory");
  return out;
}

__device__ inline void LoadShared8(uint32_t at, uint32_t out[2]) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(out[0]), "=r"(out[1])
               : "r"(at)
               : "memory");
}

// The window of 8 elements that starts 2 * kWord elements, and perhaps one more, into the vector at
// one address in shared memory and ends in the one at the other.
template <int kWord>
__device__ inline void Window(uint32_t at, uint32_t after, bool odd, uint32_t (&out)[4]) {
  uint32_t both[8];
  LoadShared16(at, both);
  LoadShared16(after, both + 4);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[i] = __funnelshift_r(both[kWord + i], both[kWord + i + 1], odd ? 16 : 0);
  }
}

// The windows of a whole warp, whose lanes follow one another, as aligned vectors again, chunk
// after chunk: each is the end of the window before and the start of the lane's own.
template <int kWord>
class WindowTurn {
 public:
  __device__ explicit WindowTurn(bool odd) : odd_(odd) {}

  // The vector that the lane's window starts in. Of the first chunk, what comes before the window
  // of lane 0 is anything.
  __device__ void Vector(const uint32_t (&window)[4], uint32_t (&out)[4]) {
    const int lane = threadIdx.x % 32;
    uint32_t before[kCarried];
#pragma unroll
    for (int i = 0; i < kCarried; ++i) {
      const uint32_t turned = __shfl_sync(~0u, window[4 - kCarried + i], (lane + 31) & 31);
      before[i] = lane == 0 ? carry_[i] : turned;
      carry_[i] = turned;
    }
    Combine(before, window, out);
  }

  // Stores the elements of the vector at `at` that belong to the window that starts in it.
  __device__ void StoreStart(const uint32_t (&vector)[4], std::byte* at) const {
    if (odd_) {
      reinterpret_cast<uint16_t*>(at)[2 * kWord + 1] = static_cast<uint16_t>(vector[kWord] >> 16);
    } else {
      reinterpret_cast<uint32_t*>(at)[kWord] = vector[kWord];
    }
#pragma unroll
    for (int i = kWord + 1; i < 4; ++i) reinterpret_cast<uint32_t*>(at)[i] = vector[i];
  }

  // For lane 0: stores the end of the last chunk's last window, into the vector at `at`.
  __device__ void StoreEnd(std::byte* at) const {
    uint32_t out[4];
    const uint32_t nothing[4] = {};
    Combine(carry_, nothing, out);
#pragma unroll
    for (int i = 0; i < kWord; ++i) reinterpret_cast<uint32_t*>(at)[i] = out[i];
    if (odd_) reinterpret_cast<uint16_t*>(at)[2 * kWord] = static_cast<uint16_t>(out[kWord]);
  }

 private:
  static constexpr int kCarried = kWord + 1;  // words of the window before that a vector needs

  __device__ void Combine(const uint32_t (&before)[kCarried], const uint32_t (&window)[4],
                          uint32_t (&out)[4]) const {
    uint32_t both[kCarried + 4];
#pragma unroll
    for (int i = 0; i < kCarried + 4; ++i)
      both[i] = i < kCarried ? before[i] : window[i - kCarried];
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = __funnelshift_rc(both[i], both[i + 1], odd_ ? 16 : 32);
  }

  bool odd_;
  uint32_t carry_[kCarried] =
      {};  // of lane 0: the end of the warp's last window of the chunk before
};

}  // namespace spin::kernels::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_launch.h"
#include "kernels/internal/cuda_load.h"

// Timeline words as kernels of one thread: unlike a stream wait of the driver they give up by
// themselves, so that a dead peer holds a stream no longer than its limit.
namespace spin::kernels {
namespace {

__device__ uint64_t Now() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void WaitWordKernel(const uint64_t* word, uint64_t value, uint64_t limit_ns,
                               uint32_t* timed_out) {
  const uint64_t start = Now();
  for (;;) {
    uint64_t seen;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(seen) : "l"(word) : "memory");
    if (seen >= value) return;
    if (Now() - start >= limit_ns) break;
    __nanosleep(500);
  }
  // A store: the flag is in host memory, where a GPU need not have atomics.
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(timed_out), "r"(1u) : "memory");
}

__global__ void WriteWordKernel(uint64_t* word, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

}  // namespace

cudaError_t WaitWordCuda(const uint64_t* word, uint64_t value, uint64_t limit_ns,
                         uint32_t* timed_out, cudaStream_t stream) {
  WaitWordKernel<<<1, 1, 0, stream>>>(word, value, limit_ns, timed_out);
  return cudaGetLastError();
}

cudaError_t WriteWordCuda(uint64_t* word, uint64_t value, cudaStream_t stream) {
  WriteWordKernel<<<1, 1, 0, stream>>>(word, value);
  return cudaGetLastError();
}

cudaError_t internal::LoadWordCuda() { return Load(WaitWordKernel, WriteWordKernel); }

}  // namespace spin::kernels

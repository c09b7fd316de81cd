// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_launch.h"
#include "kernels/internal/cuda_load.h"
#include "kernels/internal/cuda_start.h"

namespace spin::kernels {
namespace {

constexpr int kThreads = 128;
constexpr unsigned kPauseNs = 100;  // between two looks at a word

// Another process or the host writes these.
__device__ uint64_t Fresh(const uint64_t* word) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

__device__ int64_t Nanoseconds() {
  int64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__device__ bool Reached(const uint64_t* word, uint64_t value, int64_t limit_ns) {
  const int64_t start = Nanoseconds();
  while (Fresh(word) < value) {
    // Another process may have had the GPU since the look.
    if (Nanoseconds() - start >= limit_ns) return Fresh(word) >= value;
    __nanosleep(kPauseNs);
  }
  return true;
}

__global__ void ExpectKernel(const __grid_constant__ ExpectParams p) {
  if (Reached(p.word, p.value, p.limit_ns)) return;
  p.binding->epoch = 0;  // no list has this stamp
  p.binding->staging = nullptr;
  *p.late += 1;
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p.skipped), "l"(p.step) : "memory");
}

template <typename Row>
__device__ void Drop(Row* rows, int32_t count) {
  for (int32_t r = threadIdx.x; r < count; r += kThreads) rows[r].request = kPaddingRow;
}

__global__ void __launch_bounds__(kThreads) AdmitKernel(const __grid_constant__ AdmitParams p) {
  const Admission admission = Fresh(p.given_up) == p.ticket ? Admission::kGivenUp
                              : Fresh(p.skipped) >= p.step  ? Admission::kSkipped
                                                            : Admission::kAdmitted;
  // All threads must have seen the same, and they may not have.
  __shared__ Admission shared;
  if (threadIdx.x == 0) shared = *p.admission = admission;
  __syncthreads();
  if (shared == Admission::kAdmitted) return;
  Drop(p.scored, p.scored_count);
  Drop(p.audited, p.audited_count);
  Drop(p.next, p.next_count);
}

}  // namespace

cudaError_t ExpectCuda(const ExpectParams& p, cudaStream_t stream) {
  return internal::Launch(ExpectKernel, 1, 1, stream, p);
}

cudaError_t AdmitCuda(const AdmitParams& p, cudaStream_t stream) {
  return internal::Launch(AdmitKernel, 1, kThreads, stream, p);
}

cudaError_t internal::LoadHandoverCuda() {
  const cudaError_t error = Load(ExpectKernel, AdmitKernel);
  if (error != cudaSuccess) return error;
  // While it waits, spind's kernels run beside it: those want all of the shared memory of a
  // multiprocessor, which can't be divided anew before everything on it has ended.
  return cudaFuncSetAttribute(ExpectKernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);
}

}  // namespace spin::kernels

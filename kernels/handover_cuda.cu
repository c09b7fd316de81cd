// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_launch.h"
#include "kernels/internal/cuda_load.h"

namespace spin::kernels {
namespace {

constexpr int kThreads = 128;

// Another process or the host writes these.
__device__ uint64_t Fresh(const uint64_t* word) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

__global__ void ExpectKernel(const __grid_constant__ ExpectParams p) {
  if (Fresh(p.given_up) != p.ticket) return;
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
  ExpectKernel<<<1, 1, 0, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t AdmitCuda(const AdmitParams& p, cudaStream_t stream) {
  AdmitKernel<<<1, kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t internal::LoadHandoverCuda() { return Load(ExpectKernel, AdmitKernel); }

}  // namespace spin::kernels

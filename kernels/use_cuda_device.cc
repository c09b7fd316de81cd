// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/use_cuda_device.h"

#include <cuda.h>

namespace spin::kernels {
namespace {

bool ThreadHasContext() {
  using GetCurrent = decltype(cuCtxGetCurrent);
  static GetCurrent* const get_current = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &found, 12000,
                                                               cudaEnableDefault, &result);
    return error == cudaSuccess ? reinterpret_cast<GetCurrent*>(found) : nullptr;
  }();
  CUcontext context = nullptr;
  return get_current != nullptr && get_current(&context) == CUDA_SUCCESS && context != nullptr;
}

}  // namespace

UseCudaDevice::UseCudaDevice(int ordinal) {
  // Asked first: what comes after may make a context on the device that is current so far.
  const bool had_context = ThreadHasContext();
  error_ = cudaGetDevice(&caller_);
  if (error_ == cudaSuccess && !(caller_ == ordinal && had_context)) {
    error_ = cudaSetDevice(ordinal);
    restore_ = error_ == cudaSuccess && had_context;
  }
  (void)cudaThreadExchangeStreamCaptureMode(&mode_);
}

UseCudaDevice::~UseCudaDevice() {
  (void)cudaThreadExchangeStreamCaptureMode(&mode_);
  if (restore_) (void)cudaSetDevice(caller_);
}

}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cuda_runtime_api.h>

namespace spin::kernels {

// Makes a GPU current on the calling thread, and the caller's again at the end: if it had one, for
// to set one that was never used would make a context there. Meanwhile calls that allocate or map
// do not invalidate a graph that another thread of the process is capturing.
class UseCudaDevice {
 public:
  explicit UseCudaDevice(int ordinal);
  UseCudaDevice(const UseCudaDevice&) = delete;
  UseCudaDevice& operator=(const UseCudaDevice&) = delete;
  ~UseCudaDevice();

  cudaError_t error() const { return error_; }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  int caller_ = 0;
  bool restore_ = false;
  cudaError_t error_;
};

}  // namespace spin::kernels

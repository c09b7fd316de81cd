// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cuda_runtime_api.h>

// How the kernels get onto the device before their first launch; see LoadKernelsCuda.
namespace spin::kernels::internal {

// Loads kernels, each a pointer to a __global__ function.
template <typename... Kernels>
cudaError_t Load(Kernels... kernels) {
  cudaError_t error = cudaSuccess;
  cudaFuncAttributes attributes;
  const auto load = [&](const void* kernel) {
    if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kernel);
  };
  (load(reinterpret_cast<const void*>(kernels)), ...);
  return error;
}

// The kernels of one file each.
cudaError_t LoadObserveCuda();
cudaError_t LoadScanCuda();
cudaError_t LoadPredictCuda();
cudaError_t LoadSelectCuda();
cudaError_t LoadCompactCuda();
cudaError_t LoadAuditCuda();
cudaError_t LoadFillCuda();
cudaError_t LoadStageCuda();
cudaError_t LoadHandoverCuda();

}  // namespace spin::kernels::internal

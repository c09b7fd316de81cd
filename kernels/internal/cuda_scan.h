// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/cuda_launch.h"

// Pieces of the CUDA kernels that lie in files of their own.
namespace spin::kernels::internal {

// Observe of one verifier row for geometries with a PageSummary, which it keeps up to date.
cudaError_t ScanDraft(const ObserveParams& params, uint32_t draft, cudaStream_t stream);

// Each loads the kernels of one file; see LoadKernelsCuda.
cudaError_t LoadObserveCuda();
cudaError_t LoadScanCuda();
cudaError_t LoadPredictCuda();
cudaError_t LoadSelectCuda();
cudaError_t LoadCompactCuda();
cudaError_t LoadAuditCuda();
cudaError_t LoadFillCuda();
cudaError_t LoadWordCuda();

}  // namespace spin::kernels::internal

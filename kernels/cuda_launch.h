// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cuda_runtime_api.h>

#include "kernels/audit.h"
#include "kernels/compact.h"
#include "kernels/fill.h"
#include "kernels/handover.h"
#include "kernels/observe.h"
#include "kernels/predict.h"
#include "kernels/select.h"
#include "kernels/stage.h"

// The CUDA kernels, one function for each operation: they check nothing but their launch. All
// are capturable in graphs: what changes from step to step is read from the device memory that the
// parameters point to, and max_blocks and max_next_n only size the launch. Errors are CUDA's.
// Data center GPUs of compute capability 9.0 and later: others have too little shared memory.
namespace spin::kernels {

// Of shared memory, that launches may ask for in a thread block.
inline constexpr size_t kSharedBytes = 220 << 10;

cudaError_t PredictCuda(const PredictParams& params, cudaStream_t stream);
cudaError_t SelectCuda(const SelectParams& params, cudaStream_t stream);
cudaError_t CompactCuda(const CompactParams& params, cudaStream_t stream);
cudaError_t SelectAndCompactCuda(const SelectParams& select, const CompactParams& compact,
                                 cudaStream_t stream);
cudaError_t RemapCuda(const RemapParams& params, cudaStream_t stream);
cudaError_t ObserveCuda(const ObserveParams& params, cudaStream_t stream);
cudaError_t AuditCuda(const AuditParams& params, cudaStream_t stream);
cudaError_t FillCuda(const FillParams& params, cudaStream_t stream);
cudaError_t StageCuda(const StageParams& params, cudaStream_t stream);
cudaError_t ExpectCuda(const ExpectParams& params, cudaStream_t stream);
cudaError_t AdmitCuda(const AdmitParams& params, cudaStream_t stream);

// Loads every kernel of this file onto the current device and sets its limits: a first launch that
// loads its kernel lazily would never return behind a pending wait of another stream.
cudaError_t LoadKernelsCuda();

int64_t SelectWorkspaceBytesCuda(int32_t layers, int32_t rows, int32_t max_blocks);
int64_t AuditWorkspaceBytesCuda(int32_t layers, int32_t rows, int32_t max_blocks);

}  // namespace spin::kernels

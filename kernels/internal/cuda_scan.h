// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/cuda_launch.h"

namespace spin::kernels::internal {

// Observe of one verifier row for geometries with a PageSummary, which it keeps up to date.
cudaError_t ScanDraft(const ObserveParams& params, uint32_t draft, cudaStream_t stream);

}  // namespace spin::kernels::internal

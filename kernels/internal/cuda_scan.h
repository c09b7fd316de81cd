// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/cuda_launch.h"

namespace spin::kernels::internal {

// Observe for geometries with a PageSummary, which it keeps up to date.
cudaError_t ScanCuda(const ObserveParams& params, cudaStream_t stream);

}  // namespace spin::kernels::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Takes the place of cuda_scorer.cu in a build without CUDA.
#include "client/cli/replay/cuda_scorer.h"

namespace spin::cli {

absl::StatusOr<std::unique_ptr<CudaScorer>> MakeCudaScorer(const trace::Trace&, kernels::Device*) {
  return absl::UnimplementedError("this build has no CUDA device");
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Takes the place of handoff_gpu.cc in a build without CUDA.
#include "bench/handoff.h"

namespace spin::bench {

absl::StatusOr<HandoffTimes> MeasureHandoff(const std::string&, const std::string&,
                                            const HandoffShape&) {
  return absl::UnimplementedError("this build has no CUDA device");
}

}  // namespace spin::bench

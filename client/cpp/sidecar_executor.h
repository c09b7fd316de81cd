// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "client/cpp/executor.h"
#include "client/cpp/step_counts.h"
#include "spin/v1/step.pb.h"

namespace spin::internal {

// Has spind run the kernels of steps whose scores the host has: it stages them in the slab, and one
// Step a decode step asks for everything.
class SidecarExecutor final : public Executor {
 public:
  SidecarExecutor(absl::Duration step_timeout, StepCounts* counts)
      : step_timeout_(step_timeout), counts_(counts) {}

  absl::Status TakeLayer(StepState& step, int layer, const Scores& scores) override;
  absl::Status Finish(StepState& step) override;

 private:
  void TakeResults(StepState& step, const absl::Status& status);

  const absl::Duration step_timeout_;
  StepCounts* const counts_;
  v1::StepRequest request_;  // reused
  v1::StepResponse response_;
  uint64_t timeline_ = 0;  // last value used
  uint64_t timeline_session_ = 0;
};

}  // namespace spin::internal

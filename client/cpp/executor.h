// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"
#include "client/cpp/step_state.h"
#include "spin/session.h"

namespace spin::internal {

// Who runs Spin's kernels for this client. Both kinds are called in the same order and give the
// same lists. Used by the decode loop only; the step has a session.
class Executor {
 public:
  virtual ~Executor() = default;

  // The scores of one layer have come: use or keep them now, the buffer will be reused.
  virtual absl::Status TakeLayer(StepState& step, int layer, const Scores& scores) = 0;

  // All layers have come, and it is known how many verifier rows of each row were accepted: lets
  // them enter the state and has the next lists made, for the rows with `observe`. Updates their
  // histories. On an error, none was observed.
  virtual absl::Status Finish(StepState& step) = 0;
};

}  // namespace spin::internal

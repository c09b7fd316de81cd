// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "client/cpp/step_state.h"
#include "spin/v1/step.pb.h"

// What the sidecar executor says to spind about a step, and what it makes of the answer.
namespace spin::internal {

// Everything of the step; both timeline words at `value`. `request` is overwritten.
void FillStepRequest(const StepState& step, uint64_t value, v1::StepRequest* request);

// Why rows keep all blocks after a Step that failed as a whole, or after one row's error.
Reason ReasonOf(const absl::Status& status);
Reason ReasonOf(v1::ErrorReason reason);

// The row was not observed: the request's next step is a full scan and skips what was missed.
void NoteMissed(RequestHistory& history, Reason reason);

}  // namespace spin::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "client/cpp/step_state.h"
#include "spin/session.h"

namespace spin::internal {

// Copies one layer's scores of the observed rows into the session's staging area, where they
// outlive the layer. Row i of the step goes to row i of the area.
void StageLayer(const StepState& step, int layer, const Scores& scores);

}  // namespace spin::internal

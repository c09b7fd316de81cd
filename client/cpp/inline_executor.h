// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "client/cpp/executor.h"
#include "client/cpp/row_planner.h"
#include "client/cpp/step_counts.h"

namespace spin::internal {

// Runs the kernels in this process, over the mapped slab: no rpc in the decode loop. Without drafts
// the next position is known from the start, so each layer is observed and predicted as soon as its
// scores are there, while its state is in the cache, without a copy. With drafts the scores are
// staged until the verdict.
class InlineExecutor final : public Executor {
 public:
  InlineExecutor(const RowPlanner* planner, StepCounts* counts)
      : planner_(planner), counts_(counts) {}

  absl::Status TakeLayer(StepState& step, int layer, const Scores& scores) override;
  absl::Status Finish(StepState& step) override;

 private:
  const RowPlanner* const planner_;
  StepCounts* const counts_;
};

}  // namespace spin::internal

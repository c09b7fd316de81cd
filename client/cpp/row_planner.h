// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>

#include "client/cpp/link.h"
#include "client/cpp/step_state.h"
#include "spin/session.h"

namespace spin::internal {

// Decides for each row of a step whether its lists may be used, and whether its scores are
// observed; and keeps the histories of requests. What a list really holds is not looked at here.
// Belongs to the decode loop.
class RowPlanner {
 public:
  // Both outlive the planner.
  RowPlanner(const SessionOptions& options, Link* link);

  // Starts a step of these rows over `session` (null: there is none) and plans every row.
  void Begin(absl::Span<const StepRow> asked, std::shared_ptr<OpenedSession> session,
             StepState& step);

  // Fills step.next with the next steps of the observed rows, as far as lists can be made for them;
  // those go to the buffer not in use.
  void PlanNext(StepState& step) const;

  // Notes that the observed rows were observed and that the lists of PlanNext are made.
  void UpdateHistories(StepState& step) const;

  // Has no row observed or use its list, since spind is not to be trusted for now.
  void Suspend(Reason reason, StepState& step) const;

  // Notes that nothing of the step was observed: the rows go on with a full scan.
  void Forget(StepState& step) const;

  // Fills in verdicts and next widths; false if they do not fit the rows.
  bool TakeEndOptions(const EndOptions& end, StepState& step) const;

  int32_t max_blocks() const { return max_blocks_; }

 private:
  void PlanRow(const StepRow& asked, StepState& step, StepRowState& row);
  Reason CheckRow(const StepRow& asked, const StepState& step, StepRowState& row);
  Reason CheckHistory(StepRowState& row);
  void ExtendAhead(const StepRowState& row);
  bool CanPredict(const StepRowState& row) const;

  const SessionOptions& options_;
  Link* const link_;
  const kernels::Geometry geometry_;
  const int32_t max_blocks_;
};

}  // namespace spin::internal

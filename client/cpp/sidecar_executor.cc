// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/sidecar_executor.h"

#include "absl/time/clock.h"
#include "client/cpp/staging.h"
#include "client/cpp/step_request.h"
#include "kernels/word.h"

namespace spin::internal {

absl::Status SidecarExecutor::TakeLayer(StepState& step, int layer, const Scores& scores) {
  StageLayer(step, layer, scores);
  return absl::OkStatus();
}

absl::Status SidecarExecutor::Finish(StepState& step) {
  if (timeline_session_ != step.session->id()) timeline_ = 0;
  timeline_session_ = step.session->id();
  FillStepRequest(step, ++timeline_, &request_);
  dataplane::Timeline& timeline = *step.session->view().timeline;
  const absl::Time start = absl::Now();
  kernels::Raise(timeline.engine_done, timeline_);
  absl::Status status = step.session->control().Step(request_, step_timeout_, &response_);
  const absl::Duration left = step_timeout_ - (absl::Now() - start);
  if (status.ok() && !kernels::WaitReached(timeline.spin_done, timeline_, left)) {
    status = absl::DeadlineExceededError("spind's timeline word was not reached in time");
  }
  counts_->CountRpc(absl::Now() - start);
  TakeResults(step, status);
  return absl::OkStatus();  // every row knows its own fate
}

void SidecarExecutor::TakeResults(StepState& step, const absl::Status& status) {
  for (int r = 0; r < step.row_count; ++r) {
    StepRowState& row = step.rows[r];
    if (!row.observe) continue;
    RequestHistory& history = row.request->history();
    if (!status.ok() || r >= response_.results_size()) {
      NoteMissed(history, status.ok() ? Reason::kInternal : ReasonOf(status));
      continue;
    }
    const v1::StepRowResult& result = response_.results(r);
    if (result.observed()) {
      history.progress = {true, row.position + row.accepted};
      history.gap = false;
    }
    if (result.has_error()) {
      history.has_list = false;
      history.why_no_list = ReasonOf(result.error().reason());
      history.gap = history.gap || !result.observed();
      continue;
    }
    history.has_list = true;
    history.list_position = history.progress.next_position;
    history.list_next_n = row.next_next_n;
    history.buffer = 1 - row.buffer;
    history.audit = result.audit();
  }
}

}  // namespace spin::internal

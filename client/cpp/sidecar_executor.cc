// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/sidecar_executor.h"

#include "absl/time/clock.h"
#include "client/cpp/staging.h"

namespace spin::internal {
namespace {

Reason ReasonOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return Reason::kDeadline;
    case absl::StatusCode::kResourceExhausted:
      return Reason::kDeadline;  // the step queue is full
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAborted:
      return Reason::kNoSidecar;
    case absl::StatusCode::kInvalidArgument:
      return Reason::kInvalid;
    default:
      return Reason::kInternal;
  }
}

Reason ReasonOf(v1::ErrorReason reason) {
  switch (reason) {
    case v1::ERROR_REASON_CAPACITY:
      return Reason::kCapacity;
    case v1::ERROR_REASON_POSITION:
      return Reason::kPosition;
    case v1::ERROR_REASON_STALE_LIST:
      return Reason::kStale;
    case v1::ERROR_REASON_UNKNOWN_REQUEST:
    case v1::ERROR_REASON_CLOSED:
      return Reason::kEpoch;
    case v1::ERROR_REASON_INVALID_FIELD:
      return Reason::kInvalid;
    default:
      return Reason::kInternal;
  }
}

// The row was not observed: the next step starts with a full scan and skips what was missed.
void Missed(RequestHistory& history, Reason reason) {
  history.has_list = false;
  history.why_no_list = reason;
  history.gap = true;
}

}  // namespace

absl::Status SidecarExecutor::TakeLayer(StepState& step, int layer, const Scores& scores) {
  StageLayer(step, layer, scores);
  return absl::OkStatus();
}

void SidecarExecutor::FillRequest(StepState& step) {
  request_.Clear();
  request_.set_session_id(step.session->id());
  for (int r = 0; r < step.row_count; ++r) {
    const StepRowState& row = step.rows[r];
    v1::StepRow& out = *request_.add_rows();  // one for each row: its place is that of its scores
    out.mutable_handle()->set_index(row.binding.index);
    out.mutable_handle()->set_generation(row.observe ? row.binding.generation : 0);
    out.set_position(static_cast<uint64_t>(row.position));
    out.set_next_n(row.next_n);
    out.set_coverage(row.sparse() ? v1::COVERAGE_KEPT : v1::COVERAGE_ALL);
    out.set_buffer(row.buffer);
    out.set_accepted(row.accepted);
    out.set_resync(row.resync);
    out.set_next_position(static_cast<uint64_t>(row.position) + row.accepted);
    out.set_next_next_n(row.next_next_n);
  }
  if (timeline_session_ != step.session->id()) timeline_ = 0;
  timeline_session_ = step.session->id();
  ++timeline_;
  request_.set_wait_timeline(timeline_);
  request_.set_done_timeline(timeline_);
}

absl::Status SidecarExecutor::Finish(StepState& step) {
  FillRequest(step);
  kernels::Device& device = step.session->device();
  dataplane::Timeline& timeline = *step.session->view().timeline;
  const absl::Time start = absl::Now();
  absl::Status status = device.WriteWord(&timeline.engine_done, timeline_, kernels::Stream{});
  if (status.ok()) status = step.session->control().Step(request_, step_timeout_, &response_);
  if (status.ok()) {
    status = device.WaitWord(&timeline.spin_done, timeline_, step_timeout_ - (absl::Now() - start),
                             kernels::Stream{});
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
      Missed(history, status.ok() ? Reason::kInternal : ReasonOf(status));
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

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/step_request.h"

namespace spin::internal {

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

void NoteMissed(RequestHistory& history, Reason reason) {
  history.has_list = false;
  history.why_no_list = reason;
  history.gap = true;
}

void FillStepRequest(const StepState& step, uint64_t value, v1::StepRequest* request) {
  request->Clear();
  request->set_session_id(step.session->id());
  for (int r = 0; r < step.row_count; ++r) {
    const StepRowState& row = step.rows[r];
    v1::StepRow& out = *request->add_rows();  // one for each row: its place is that of its scores
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
  request->set_wait_timeline(value);
  request->set_done_timeline(value);
}

}  // namespace spin::internal

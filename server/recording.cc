// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/recording.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "server/refusal.h"

namespace spin::server {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(30);  // for the engine to finish the file
constexpr size_t kMaxMessageBytes = 512;

bool InProgress(v1::RecordingState state) {
  return state == v1::RECORDING_STATE_ASKED || state == v1::RECORDING_STATE_WAITING ||
         state == v1::RECORDING_STATE_RUNNING;
}

}  // namespace

absl::Status Recording::Start(uint64_t id, const v1::RecordingOptions& options, absl::Time now) {
  if (InProgress(status_.state()) && now < expires_) {
    return Refuse(absl::StatusCode::kAlreadyExists, v1::ERROR_REASON_RECORDING_BUSY, "session_id",
                  "names a session that is being recorded already; wait for its end");
  }
  order_.Clear();
  order_.set_recording_id(id);
  *order_.mutable_options() = options;
  status_.Clear();
  status_.set_recording_id(id);
  status_.set_state(v1::RECORDING_STATE_ASKED);
  expires_ = now + absl::Seconds(options.max_time().seconds() + 1) + kGrace;
  return absl::OkStatus();
}

absl::Status Recording::Stop(uint64_t id) {
  if (id == 0 || id != status_.recording_id()) {
    return Refuse(absl::StatusCode::kNotFound, v1::ERROR_REASON_UNKNOWN_RECORDING, "recording_id",
                  "is not the recording of this session");
  }
  order_.set_stop(true);
  if (InProgress(status_.state()) && status_.state() != v1::RECORDING_STATE_RUNNING) {
    status_.set_state(v1::RECORDING_STATE_FAILED);
    status_.set_message("stopped before a request was recorded");
  }
  return absl::OkStatus();
}

void Recording::Take(const v1::RecordingStatus& report) {
  const bool known = report.recording_id() == status_.recording_id() &&
                     v1::RecordingState_IsValid(report.state()) &&
                     report.state() > v1::RECORDING_STATE_ASKED;
  if (!known || !InProgress(status_.state())) return;
  status_.set_state(std::max(report.state(), status_.state()));
  status_.set_steps(report.steps());
  status_.set_bytes(report.bytes());
  status_.set_requests(report.requests());
  // It ends up in terminals.
  status_.set_message(absl::Utf8SafeCEscape(report.message().substr(0, kMaxMessageBytes)));
}

}  // namespace spin::server

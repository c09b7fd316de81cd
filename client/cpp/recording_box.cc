// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/recording_box.h"

#include <algorithm>

namespace spin::internal {
namespace {

v1::RecordingState ToProto(RecordingProgress::State state) {
  switch (state) {
    case RecordingProgress::State::kWaiting:
      return v1::RECORDING_STATE_WAITING;
    case RecordingProgress::State::kRunning:
      return v1::RECORDING_STATE_RUNNING;
    case RecordingProgress::State::kComplete:
      return v1::RECORDING_STATE_COMPLETE;
    case RecordingProgress::State::kFailed:
      return v1::RECORDING_STATE_FAILED;
  }
  return v1::RECORDING_STATE_UNSPECIFIED;
}

}  // namespace

Recording RecordingBox::wanted() const {
  absl::MutexLock lock(&mutex_);
  return wanted_id() == 0 ? Recording() : recording_;
}

void RecordingBox::SetProgress(uint64_t id, const RecordingProgress& progress) {
  absl::MutexLock lock(&mutex_);
  if (id == 0 || id != recording_.id) return;
  progress_ = progress;
  has_progress_ = true;
  if (Ended()) wanted_id_.store(0, std::memory_order_release);
}

bool RecordingBox::Ended() const {
  return has_progress_ && (progress_.state == RecordingProgress::State::kComplete ||
                           progress_.state == RecordingProgress::State::kFailed);
}

void RecordingBox::SetOrder(const v1::RecordingOrder& order) {
  absl::MutexLock lock(&mutex_);
  if (order.recording_id() != recording_.id) {
    const v1::RecordingOptions& options = order.options();
    recording_ = {.id = order.recording_id(),
                  .path = options.path(),
                  .max_steps = static_cast<int>(options.max_steps()),
                  .max_bytes = static_cast<int64_t>(options.max_bytes()),
                  .max_time = absl::Seconds(options.max_time().seconds()) +
                              absl::Nanoseconds(options.max_time().nanos()),
                  .sample_every = std::max(options.sample_every(), 1u),
                  .sample_seed = options.sample_seed(),
                  .max_requests = static_cast<int>(std::max(options.max_requests(), 1u))};
    has_progress_ = false;
  }
  // The same order comes with every change of the policy: what has ended is not wanted again.
  wanted_id_.store(order.stop() || Ended() ? 0 : recording_.id, std::memory_order_release);
}

void RecordingBox::Clear() {
  absl::MutexLock lock(&mutex_);
  wanted_id_.store(0, std::memory_order_release);
  recording_ = {};
  has_progress_ = false;
}

void RecordingBox::AddTo(v1::ClientReport* report) const {
  absl::MutexLock lock(&mutex_);
  if (!has_progress_) return;
  v1::RecordingStatus& out = *report->mutable_recording();
  out.set_recording_id(recording_.id);
  out.set_state(ToProto(progress_.state));
  out.set_steps(static_cast<uint64_t>(progress_.steps));
  out.set_bytes(static_cast<uint64_t>(progress_.bytes));
  out.set_message(progress_.message);
  out.set_requests(static_cast<uint32_t>(progress_.requests));
}

}  // namespace spin::internal

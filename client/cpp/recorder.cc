// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "spin/recorder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/time/clock.h"

namespace spin {

using State = RecordingProgress::State;

bool Recorder::Wanted() {
  const uint64_t id = session_->recording_id();
  if (active() || id == 0) return false;
  if (id != recording_.id) {
    recording_ = session_->recording();
    end_ = absl::Now() + recording_.max_time;
    steps_ = bytes_ = 0;
    waiting_ = recording_.id != 0;
    Report(State::kWaiting);
  }
  if (waiting_ && absl::Now() >= end_) Fail(absl::DeadlineExceededError("no request came in time"));
  return waiting_;
}

// Of a trace that takes max_bytes at most; 2 if fewer fit, so that TraceWriter says what lacks.
int Recorder::StepsThatFit(int slots) const {
  const int64_t vector = static_cast<int64_t>(shape_.layers.size()) * (shape_.dim + 4);
  const int64_t room = recording_.max_bytes - TraceWriter::kHeaderBytes - vector * slots;
  const int64_t step = std::max<int64_t>(vector * (shape_.heads + 1), 1);
  const int64_t left = shape_.max_slots - slots + 1;
  return static_cast<int>(
      std::max<int64_t>(std::min({int64_t{recording_.max_steps}, room / step, left}), 2));
}

bool Recorder::Begin(int slots) {
  if (!waiting_) return false;
  waiting_ = false;
  const int steps = StepsThatFit(slots);
  auto writer = TraceWriter::Create({.path = recording_.path,
                                     .layers = shape_.layers,
                                     .heads = shape_.heads,
                                     .dim = shape_.dim,
                                     .max_slots = slots - 1 + steps,
                                     .max_steps = steps,
                                     .max_bytes = recording_.max_bytes});
  if (!writer.ok()) {
    Fail(writer.status());
    return false;
  }
  writer_ = *std::move(writer);
  Report(State::kRunning);
  return true;
}

void Recorder::PutKeys(int layer, int first_slot, absl::Span<const uint8_t> k,
                       absl::Span<const float> k_scale) {
  if (!active()) return;
  bytes_ += static_cast<int64_t>(k.size() + k_scale.size() * sizeof(float));
  const absl::Status status = writer_->PutKeys(layer, first_slot, k, k_scale);
  if (!status.ok()) Fail(status);
}

void Recorder::PutStep(int layer, int query_slot, absl::Span<const uint8_t> q,
                       absl::Span<const float> w) {
  if (!active()) return;
  bytes_ += static_cast<int64_t>(q.size() + w.size() * sizeof(float));
  const absl::Status status = writer_->PutStep(layer, query_slot, q, w);
  if (!status.ok()) Fail(status);
}

void Recorder::EndStep() {
  if (!active()) return;
  ++steps_;
  const bool stopped = session_->recording_id() != recording_.id;
  if (stopped || writer_->Full() || absl::Now() >= end_) return Stop();
  Report(State::kRunning);
}

void Recorder::Stop() {
  if (!active()) return;
  if (const absl::Status status = writer_->Finish(); !status.ok()) return Fail(status);
  writer_.reset();
  std::error_code unknown;
  const auto size = std::filesystem::file_size(recording_.path, unknown);
  if (!unknown) bytes_ = static_cast<int64_t>(size);
  Report(State::kComplete);
}

void Recorder::Fail(const absl::Status& status) {
  waiting_ = false;
  writer_.reset();  // removes the unfinished file
  Report(State::kFailed, std::string(status.message()));
}

void Recorder::Report(State state, std::string message) {
  session_->ReportRecording(recording_.id, {state, steps_, bytes_, std::move(message)});
}

}  // namespace spin

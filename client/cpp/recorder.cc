// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "spin/recorder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/time/clock.h"
#include "client/cpp/new_file.h"

namespace spin {

using State = RecordingProgress::State;

Recorder::~Recorder() {
  if (active()) EndTrace();
  if (waiting_) End(absl::CancelledError("the engine ended before a request came"));
}

bool Recorder::Stopped() const { return session_->recording_id() != recording_.id; }

bool Recorder::Wanted() {
  const uint64_t id = session_->recording_id();
  if (active() || (id == 0 && !waiting_)) return false;
  if (waiting_ && id != recording_.id) End(absl::CancelledError("stopped before a request came"));
  if (id != 0 && id != recording_.id) Adopt();
  if (waiting_ && absl::Now() >= end_) {
    End(absl::DeadlineExceededError(
        offered_ == 0
            ? "no request came in time"
            : "no request of the sample came in time; take a larger share, or more time"));
  }
  return waiting_;
}

void Recorder::Adopt() {
  recording_ = session_->recording();
  end_ = absl::Now() + recording_.max_time;
  recorded_.clear();
  files_ = 0;
  offered_ = steps_ = bytes_ = steps_of_files_ = bytes_of_files_ = 0;
  waiting_ = recording_.id != 0;
  const absl::Status free = CheckPaths();
  free.ok() ? Report(State::kWaiting) : End(free);
}

// Before anyone waits for a request, only to be refused then.
absl::Status Recorder::CheckPaths() const {
  absl::Status free;
  for (int i = 0; i < recording_.max_requests; ++i) {
    free.Update(internal::CheckAbsent(recording_.PathOf(i)));
  }
  return free;
}

// Of a trace that takes what is left of max_bytes; 2 if fewer fit, so that TraceWriter says what
// lacks.
int Recorder::StepsThatFit(int slots) const {
  const int64_t vector = static_cast<int64_t>(shape_.layers.size()) * (shape_.dim + 4);
  const int64_t room = BytesLeft() - TraceWriter::kHeaderBytes - vector * slots;
  const int64_t step = std::max<int64_t>(vector * (shape_.heads + 1), 1);
  const int64_t left = shape_.max_slots - slots + 1;
  return static_cast<int>(
      std::max<int64_t>(std::min({int64_t{recording_.max_steps}, room / step, left}), 2));
}

bool Recorder::Begin(absl::string_view request_key, int slots) {
  if (!waiting_ || active()) return false;
  ++offered_;
  if (!recording_.Draws(request_key)) return false;
  if (std::find(recorded_.begin(), recorded_.end(), request_key) != recorded_.end()) return false;
  const int steps = StepsThatFit(slots);
  auto writer = TraceWriter::Create({.path = recording_.PathOf(files_),
                                     .layers = shape_.layers,
                                     .heads = shape_.heads,
                                     .dim = shape_.dim,
                                     .max_slots = slots - 1 + steps,
                                     .max_steps = steps,
                                     .max_bytes = BytesLeft()});
  if (!writer.ok()) {
    End(writer.status());
    return false;
  }
  recorded_.emplace_back(request_key);
  waiting_ = false;
  writer_ = *std::move(writer);
  Report(State::kRunning);
  return true;
}

void Recorder::PutKeys(int layer, int first_slot, absl::Span<const uint8_t> k,
                       absl::Span<const float> k_scale) {
  if (!active()) return;
  bytes_ += static_cast<int64_t>(k.size() + k_scale.size() * sizeof(float));
  Check(writer_->PutKeys(layer, first_slot, k, k_scale));
}

void Recorder::PutStep(int layer, int query_slot, absl::Span<const uint8_t> q,
                       absl::Span<const float> w) {
  if (!active()) return;
  bytes_ += static_cast<int64_t>(q.size() + w.size() * sizeof(float));
  Check(writer_->PutStep(layer, query_slot, q, w));
}

void Recorder::Check(const absl::Status& put) {
  if (!put.ok()) End(put);
}

void Recorder::EndStep() {
  if (!active()) return;
  ++steps_;
  if (writer_->Full() || Stopped() || absl::Now() >= end_) return EndTrace();
  Report(State::kRunning);
}

void Recorder::Stop() {
  if (active()) EndTrace();
}

void Recorder::EndTrace() {
  const bool too_short = steps_ < 2;  // its request has ended already: another one will do
  const absl::Status finished = writer_->Finish();
  if (finished.ok()) {
    std::error_code unknown;
    const auto size = std::filesystem::file_size(recording_.PathOf(files_), unknown);
    bytes_of_files_ += unknown ? bytes_ : static_cast<int64_t>(size);
    steps_of_files_ += steps_;
    ++files_;
  }
  writer_.reset();
  steps_ = bytes_ = 0;
  const bool over = files_ >= recording_.max_requests || Stopped() || absl::Now() >= end_;
  if (over || !(finished.ok() || too_short)) return End(finished);
  waiting_ = true;
  Report(State::kRunning);
}

// What is there is kept: `why` counts only where nothing is.
void Recorder::End(const absl::Status& why) {
  waiting_ = false;
  writer_.reset();  // removes an unfinished file
  steps_ = bytes_ = 0;
  if (files_ > 0) return Report(State::kComplete);
  Report(State::kFailed, why.message());
}

void Recorder::Report(State state, absl::string_view message) {
  session_->ReportRecording(
      recording_.id,
      {state, steps_of_files_ + steps_, bytes_of_files_ + bytes_, files_, std::string(message)});
}

}  // namespace spin

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "spin/recording.h"
#include "spin/session.h"
#include "spin/trace_writer.h"

// An engine's part of 'spinctl record': looks whether a trace is wanted, writes it within its
// bounds, and reports. Needs SessionOptions::allow_recording.
//
//   spin::Recorder recorder(session.get(), {.layers = {0, 10}, .heads = 64, .dim = 128});
//   // in each decode step:
//   if (recorder.Wanted() && recorder.Begin(slots))      // choose a request; slots: its context
//     for each layer: recorder.PutKeys(layer, 0, k, k_scale);     // from the indexer's cache
//   if (recorder.active()) {
//     for each layer: recorder.PutKeys(layer, slot, ...), recorder.PutStep(layer, slot, ...);
//     recorder.EndStep();                                // or Stop() when the request has ended
//   }
namespace spin {

struct RecorderShape {
  std::vector<int> layers;  // the model's numbers of the layers to record, ascending
  int heads = 0;            // of the indexer
  int dim = 0;              // of a head and of a key
  int max_slots = 0;        // of the longest context of the model
};

// Not thread-safe. Without a recording a step costs one atomic load (Wanted). Must not outlive the
// session. An error ends the recording and is reported to whoever asked; the engine goes on.
class Recorder {
 public:
  Recorder(Session* session, RecorderShape shape) : session_(session), shape_(std::move(shape)) {}

  // Finishes what is whole.
  ~Recorder() { Stop(); }

  // Whether a recording waits for its request.
  bool Wanted();

  // Begins it with a request that has `slots` slots of context in its next step, that step's own
  // among them. False if that cannot be.
  bool Begin(int slots);
  bool active() const { return writer_ != nullptr; }

  // As in TraceWriter; nothing without a recording.
  void PutKeys(int layer, int first_slot, absl::Span<const uint8_t> k,
               absl::Span<const float> k_scale);
  void PutStep(int layer, int query_slot, absl::Span<const uint8_t> q, absl::Span<const float> w);

  // After the last layer of a step: ends the recording when a bound is reached or it was stopped.
  void EndStep();

  // Ends it now: the request has ended. Keeps the steps so far, if there are two or more.
  void Stop();

 private:
  int StepsThatFit(int slots) const;
  void Report(RecordingProgress::State state, std::string message = "");
  void Fail(const absl::Status& status);

  Session* const session_;
  const RecorderShape shape_;
  Recording recording_;   // the newest seen
  bool waiting_ = false;  // for its request
  std::unique_ptr<TraceWriter> writer_;
  absl::Time end_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace spin

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "spin/recording.h"
#include "spin/session.h"
#include "spin/trace_writer.h"

// An engine's part of 'spinctl record': looks whether traces are wanted, draws the requests, writes
// within the bounds, and reports. Needs SessionOptions::allow_recording.
//
//   spin::Recorder recorder(session.get(), {.layers = {0, 10}, .heads = 64, .dim = 128});
//   // in each decode step:
//   if (recorder.Wanted())
//     for each request: if (recorder.Begin(key, slots)) {         // slots: its context
//       for each layer: recorder.PutKeys(layer, 0, k, k_scale);   // from the indexer's cache
//       recorded = that request;
//     }
//   if (recorder.active()) {
//     for each layer: recorder.PutKeys(layer, slot, ...), recorder.PutStep(layer, slot, ...);
//     recorder.EndStep();                                // or Stop() when the request has ended
//   }
//
// One request is recorded at a time. To sample requests evenly, offer each as it begins to decode:
// which of those that have long been running is offered first is up to the engine.
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
  ~Recorder();

  // Whether a recording waits for a request.
  bool Wanted();

  // Offers a request, that has `slots` slots of context in its next step, that step's own among
  // them. True if it is recorded from now on. False if it is not in the sample (which its key
  // decides: offering it again changes nothing), has been recorded already, or cannot be.
  bool Begin(absl::string_view request_key, int slots);
  bool active() const { return writer_ != nullptr; }

  // As in TraceWriter; nothing without a recording.
  void PutKeys(int layer, int first_slot, absl::Span<const uint8_t> k,
               absl::Span<const float> k_scale);
  void PutStep(int layer, int query_slot, absl::Span<const uint8_t> q, absl::Span<const float> w);

  // After the last layer of a step: ends the trace when a bound is reached or it was stopped.
  void EndStep();

  // Ends the trace now: the request has ended. Keeps its steps, if there are two or more.
  void Stop();

 private:
  bool Stopped() const;
  int StepsThatFit(int slots) const;
  int64_t BytesLeft() const { return recording_.max_bytes - bytes_of_files_; }
  void Adopt();
  absl::Status CheckPaths() const;
  void Check(const absl::Status& put);
  void EndTrace();
  void End(const absl::Status& why);
  void Report(RecordingProgress::State state, absl::string_view message = "");

  Session* const session_;
  const RecorderShape shape_;
  Recording recording_;   // the newest seen
  bool waiting_ = false;  // for a request
  std::unique_ptr<TraceWriter> writer_;
  absl::Time end_;
  int64_t offered_ = 0;                // requests, those that are offered again too
  std::vector<std::string> recorded_;  // keys, the one under way among them
  int files_ = 0;                      // complete
  int64_t steps_ = 0, bytes_ = 0;      // of the trace under way
  int64_t steps_of_files_ = 0, bytes_of_files_ = 0;
};

}  // namespace spin

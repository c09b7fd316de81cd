// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace spin {

// Traces that someone asked for with 'spinctl record'. spin::Recorder acts on it.
struct Recording {
  uint64_t id = 0;        // 0: nothing is to be recorded
  std::string path;       // of the trace, as this process sees it: absolute
  int max_steps = 0;      // of each trace
  int64_t max_bytes = 0;  // of all files together
  absl::Duration max_time;
  uint32_t sample_every = 1;  // a request is taken with a chance of 1 in so many
  uint64_t sample_seed = 0;
  int max_requests = 1;  // a file each

  // Of the trace of one request, counted from 0: with several, "x.safetensors" is
  // "x-1.safetensors".
  std::string PathOf(int request) const;
  // Whether a request of this key is in the sample: always the same answer, on every rank.
  bool Draws(absl::string_view request_key) const;
};

struct RecordingProgress {
  enum class State { kWaiting, kRunning, kComplete, kFailed };
  State state = State::kWaiting;
  int64_t steps = 0;  // of all layers, of all requests
  int64_t bytes = 0;
  int requests = 0;     // whose file is there
  std::string message;  // why it failed, for people
};

}  // namespace spin

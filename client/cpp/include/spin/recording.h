// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace spin {

// A trace that someone asked for with 'spinctl record'. spin::Recorder acts on it.
struct Recording {
  uint64_t id = 0;   // 0: nothing is to be recorded
  std::string path;  // of the trace, as this process sees it: absolute
  int max_steps = 0;
  int64_t max_bytes = 0;  // of the file
  absl::Duration max_time;
};

struct RecordingProgress {
  enum class State { kWaiting, kRunning, kComplete, kFailed };
  State state = State::kWaiting;
  int64_t steps = 0;  // of all layers
  int64_t bytes = 0;
  std::string message;  // why it failed, for people
};

}  // namespace spin

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/replay/engine.h"
#include "client/cli/replay/quality.h"
#include "client/cli/replay/replay_flags.h"
#include "spin/session.h"
#include "trace/scorer.h"

namespace spin::cli {

// What one request made of its trace, over steps 1 on.
struct RequestQuality {
  std::string trace;
  double miss_mean = 0;
  double realized_sparsity = 0;
};

// What came out of playing traces. Quality and times are over steps 1 on of each request.
struct PlayResult {
  int steps = 0;  // played, the cold first one of each request included
  std::vector<RequestQuality> requests;
  std::vector<QualityMeter> layers;
  StepTimes mean;       // per step
  StepTimes mean_full;  // per step of a full scan, see Verdict::full
  bool exact = true;    // see Verdict::exact; in every layer of every step

  // Adds what another request, or several, made of theirs.
  void Add(const PlayResult& other);
};

// Plays `steps` steps of the trace, called `name`, through one request. CANCELLED if interrupted.
// `progress` is called after each step with the number of steps done.
absl::StatusOr<PlayResult> Play(const trace::Scorer& scorer, const std::string& name,
                                const ReplayFlags& flags, int steps, Engine* engine,
                                const Request& request, const std::function<void(int)>& progress);

}  // namespace spin::cli

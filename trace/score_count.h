// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trace/trace.h"

namespace spin::trace {

struct ScoreCount {
  int64_t all = 0;  // that the steps see, in all layers
  int64_t nan = 0;
  int64_t infinite = 0;

  void Add(const ScoreCount& other) {
    all += other.all;
    nan += other.nan;
    infinite += other.infinite;
  }

  double BadShare() const {
    return all == 0 ? 0 : static_cast<double>(nan + infinite) / static_cast<double>(all);
  }
};

// Of the first `steps` steps, 1 to trace.steps. Where the trace's values rule out others than
// finite scores, that takes one look at each value; else every score is computed, and `after_layer`
// may end it: another status than OK is returned.
absl::StatusOr<ScoreCount> CountScores(const Trace& trace, int steps,
                                       const std::function<absl::Status()>& after_layer);

}  // namespace spin::trace

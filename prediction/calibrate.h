// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Budgets for each layer, learnt from recorded traces, and what to expect of them.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "prediction/layer_curves.h"
#include "prediction/tally.h"
#include "trace/trace.h"

namespace spin::prediction {

// One of both is set. What is meant is the miss of a text like the traces, not of those themselves
// (prediction/expected_curves.h): they miss a little less.
struct CalibrationGoal {
  std::optional<double> sparsity;  // in [0, 1): the least miss at this total
  std::optional<double> miss;      // in (0, 1): the highest total that misses no more on average
};

struct Calibrated {
  std::vector<double> layer_sparsity;  // [layers]
  double total_sparsity = 0;           // their mean
  // The same for all layers: of the goal's sparsity, or as high as the goal's miss allows.
  double uniform_sparsity = 0;
  std::vector<MissSummary> calibrated;     // [traces] with layer_sparsity, which learnt from them
  std::vector<MissSummary> uniform;        // [traces] with uniform_sparsity
  std::vector<MissSummary> uniform_total;  // [traces] with total_sparsity for every layer
  // [traces] with budgets of the same goal that learnt from the other traces only: what to expect
  // of a text that is not among them. Empty for a single trace.
  std::vector<MissSummary> held_out;
};

// Mean over the traces.
double MeanMiss(absl::Span<const MissSummary> traces);
// The worst of the traces'.
double WorstP99(absl::Span<const MissSummary> traces);

// Results in the order of the goals. `after_step` is called with the share done, in [0, 1]; another
// status than OK ends the work with it.
//
// INVALID_ARGUMENT: there is no trace or goal, or a trace does not fit the first; the message says
// which, counted from 1.
absl::StatusOr<std::vector<Calibrated>> Calibrate(
    absl::Span<const trace::Trace> traces, absl::Span<const CalibrationGoal> goals,
    const ReplayOptions& options, const std::function<absl::Status(double)>& after_step);

}  // namespace spin::prediction

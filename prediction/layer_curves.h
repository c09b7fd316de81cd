// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// What each layer of a trace misses at each budget, measured by replaying every budget. More than
// the ranks of an audit tell: a budget also decides what the averages get to see.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/policy.h"
#include "prediction/predictor.h"
#include "prediction/tally.h"
#include "trace/trace.h"

namespace spin::prediction {

// How to replay.
struct ReplayOptions {
  MakePredictor predictor = nullptr;
  int topk = 0;
  int block = 64;
  double exploration = 0.05;
  double decay = 0.5;
  bool pin_first_block = false;
  uint64_t seed = 0;
  int threads = 1;
};

using AfterStep = std::function<absl::Status()>;

// Sparsities at which curves are measured: 0.1 to 0.975.
absl::Span<const double> CurveSparsities();

// miss[layer][i]: mean over the steps at CurveSparsities()[i].
struct LayerCurves {
  std::vector<std::vector<double>> miss;
};

// The status is that of `after_step`.
absl::StatusOr<LayerCurves> MeasureLayerCurves(const trace::Trace& trace,
                                               const ReplayOptions& options,
                                               const AfterStep& after_step);

// What each of these budgets [layers] misses on the trace.
absl::StatusOr<std::vector<MissSummary>> ReplayBudgets(
    const trace::Trace& trace, absl::Span<const std::vector<double>> budgets,
    const ReplayOptions& options, const AfterStep& after_step);

}  // namespace spin::prediction

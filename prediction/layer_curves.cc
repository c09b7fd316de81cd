// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/layer_curves.h"

#include <algorithm>
#include <array>
#include <memory>

#include "prediction/sub_block_means.h"
#include "prediction/trial.h"
#include "trace/scorer.h"

namespace spin::prediction {
namespace {

constexpr double kFirst = 0.1, kSpacing = 0.025;
constexpr int kPoints = 36;

constexpr std::array<double, kPoints> kSparsities = [] {
  std::array<double, kPoints> points{};
  for (int i = 0; i < kPoints; ++i) points[i] = kFirst + kSpacing * i;
  return points;
}();

kernels::Policy PolicyFor(const std::vector<double>& budgets, const ReplayOptions& options) {
  kernels::Policy policy = {};
  std::copy(budgets.begin(), budgets.end(), policy.sparsity);
  policy.exploration = options.exploration;
  policy.decay = options.decay;
  policy.seed = options.seed;
  policy.pin_first_block = options.pin_first_block;
  return policy;
}

}  // namespace

absl::Span<const double> CurveSparsities() { return kSparsities; }

absl::StatusOr<std::vector<MissSummary>> ReplayBudgets(
    const trace::Trace& trace, absl::Span<const std::vector<double>> budgets,
    const ReplayOptions& options, const AfterStep& after_step) {
  const kernels::Geometry geometry = {trace.layers, options.block, options.topk, 1,
                                      kernels::Dtype::kF32};
  std::vector<std::unique_ptr<Trial>> trials;
  std::vector<LayerVisitor*> visitors;
  for (const std::vector<double>& of_layers : budgets) {
    trials.push_back(std::make_unique<Trial>(
        options.predictor,
        TrialOptions{geometry, trace.Context(trace.steps - 1), PolicyFor(of_layers, options)}));
    visitors.push_back(trials.back().get());
  }
  const trace::Scorer scorer(trace);
  const SubBlockMeans means(trace);
  absl::Status status = Walk({&scorer, &means, trace.steps, options.topk, options.block}, visitors,
                             {2, options.threads, [&](int) { return after_step(); }});
  if (!status.ok()) return status;
  std::vector<MissSummary> misses;
  for (const auto& trial : trials) misses.push_back(trial->Read());
  return misses;
}

absl::StatusOr<LayerCurves> MeasureLayerCurves(const trace::Trace& trace,
                                               const ReplayOptions& options,
                                               const AfterStep& after_step) {
  std::vector<std::vector<double>> budgets;
  for (const double sparsity : kSparsities) budgets.emplace_back(trace.layers, sparsity);
  const auto replayed = ReplayBudgets(trace, budgets, options, after_step);
  if (!replayed.ok()) return replayed.status();
  LayerCurves curves;
  curves.miss.resize(trace.layers);
  for (const MissSummary& at : *replayed) {
    // A predictor that has nothing to say of the first layers scans them.
    const int silent = trace.layers - static_cast<int>(at.layers.size());
    for (int layer = 0; layer < trace.layers; ++layer) {
      curves.miss[layer].push_back(layer < silent ? 0 : at.layers[layer - silent]);
    }
  }
  return curves;
}

}  // namespace spin::prediction

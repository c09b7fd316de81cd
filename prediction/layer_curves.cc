// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/layer_curves.h"

#include <algorithm>
#include <array>
#include <memory>

#include "kernels/audit_ranks.h"
#include "prediction/sub_block_means.h"
#include "prediction/trial.h"
#include "trace/scorer.h"

namespace spin::prediction {
namespace {

constexpr double kFirst = 0.1, kSpacing = 0.025;
constexpr int kPoints = 36;
constexpr double kSlots = 1e12;  // of a curve: shares as whole numbers

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

// The miss where the share `keep` of all blocks is kept: 1 where none is, 0 where all are, linear
// between the points, and never rising with `keep`.
double Interpolated(const std::vector<double>& miss, double keep) {
  const double sparsity = 1 - keep;
  if (sparsity <= kFirst) return miss[0] * sparsity / kFirst;
  const double last = kSparsities.back();
  if (sparsity >= last) return miss.back() + (1 - miss.back()) * (sparsity - last) / (1 - last);
  const int i = std::min(static_cast<int>((sparsity - kFirst) / kSpacing), kPoints - 2);
  const double t = (sparsity - kSparsities[i]) / kSpacing;
  return miss[i] + (miss[i + 1] - miss[i]) * t;
}

calibration::MissCurve CurveOf(const std::vector<double>& miss) {
  std::array<uint64_t, kernels::kRankBins> slots;
  double below = 0;  // the most that any larger budget misses
  for (int bin = kernels::kRankBins - 1; bin >= 0; --bin) {
    const double here =
        std::max(below, Interpolated(miss, static_cast<double>(bin) / kernels::kRankBins));
    slots[bin] = static_cast<uint64_t>((here - below) * kSlots);
    below = here;
  }
  calibration::MissCurve curve;
  curve.Add(slots);
  return curve;
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

std::vector<calibration::MissCurve> MissCurves(absl::Span<const LayerCurves* const> traces) {
  std::vector<calibration::MissCurve> curves(traces.empty() ? 0 : traces[0]->miss.size());
  for (size_t layer = 0; layer < curves.size(); ++layer) {
    std::vector<double> mean(kPoints);
    for (const LayerCurves* trace : traces) {
      for (int i = 0; i < kPoints; ++i) {
        mean[i] += trace->miss[layer][i] / static_cast<double>(traces.size());
      }
    }
    curves[layer] = CurveOf(mean);
  }
  return curves;
}

}  // namespace spin::prediction

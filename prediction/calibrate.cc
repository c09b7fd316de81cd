// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/calibrate.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibration/allocation.h"
#include "kernels/geometry.h"
#include "prediction/expected_curves.h"

namespace spin::prediction {
namespace {

using calibration::Allocation;
using calibration::MissCurve;

absl::Status CheckTraces(absl::Span<const trace::Trace> traces) {
  if (traces.empty()) return absl::InvalidArgumentError("there must be a trace");
  for (size_t t = 0; t < traces.size(); ++t) {
    const trace::Trace& trace = traces[t];
    const auto invalid = [t](const auto&... parts) {
      return absl::InvalidArgumentError(absl::StrCat("trace ", t + 1, ": ", parts...));
    };
    if (trace.steps < 2) return invalid("1 step is too few; the first one scans everything");
    if (trace.layers > kernels::kMaxLayers || trace.Context(trace.steps - 1) > kernels::kMaxSlots) {
      return invalid(trace.layers, " layers of ", trace.slots, " slots are more than Spin takes");
    }
    if (trace.layer_numbers != traces[0].layer_numbers) {
      return invalid(
          "it has other layers than the first one; budgets are learnt from traces of one "
          "model, with the same layers recorded");
    }
  }
  return absl::OkStatus();
}

// What each layer keeps in any case, as a share of the shortest context.
calibration::AllocationLimits LimitsFor(absl::Span<const trace::Trace> traces,
                                        const ReplayOptions& options) {
  int blocks = kernels::BlocksOf(traces[0].Context(0), options.block);
  for (const trace::Trace& trace : traces) {
    blocks = std::min(blocks, kernels::BlocksOf(trace.Context(0), options.block));
  }
  calibration::AllocationLimits limits;  // the curves were measured with exploration, not without
  const double needed = kernels::BlocksOf(options.topk, options.block);
  limits.min_keep = std::clamp(needed / blocks, 1.0 / blocks, 1.0);
  return limits;
}

struct Budgets {
  Allocation calibrated, uniform;
};

absl::StatusOr<Budgets> Allocate(absl::Span<const LayerCurves* const> traces,
                                 const CalibrationGoal& goal,
                                 const calibration::AllocationLimits& limits) {
  const std::vector<MissCurve> curves = ExpectedCurves(traces, SpreadOfTexts(traces));
  absl::StatusOr<Allocation> calibrated =
      goal.sparsity ? calibration::AllocateAtSparsity(curves, *goal.sparsity, limits)
                    : calibration::AllocateAtMiss(curves, *goal.miss, limits);
  if (!calibrated.ok()) return calibrated.status();
  absl::StatusOr<Allocation> uniform =
      goal.sparsity ? calibration::UniformAtSparsity(curves, *goal.sparsity, limits)
                    : calibration::UniformAtMiss(curves, *goal.miss, limits);
  if (!uniform.ok()) return uniform.status();
  return Budgets{*std::move(calibrated), *std::move(uniform)};
}

// Pointers to all but one.
std::vector<const LayerCurves*> AllBut(const std::vector<LayerCurves>& curves, size_t without) {
  std::vector<const LayerCurves*> others;
  for (size_t t = 0; t < curves.size(); ++t) {
    if (t != without) others.push_back(&curves[t]);
  }
  return others;
}

// Replays what was allocated on one trace, and files it in the results.
absl::Status Measure(const trace::Trace& trace, const std::vector<Allocation>& held_out,
                     const ReplayOptions& options, const AfterStep& after_step,
                     std::vector<Calibrated>* results) {
  std::vector<std::vector<double>> budgets;
  for (size_t g = 0; g < results->size(); ++g) {
    const Calibrated& result = (*results)[g];
    budgets.push_back(result.layer_sparsity);
    budgets.emplace_back(trace.layers, result.uniform_sparsity);
    budgets.emplace_back(trace.layers, result.total_sparsity);
    if (!held_out.empty()) budgets.push_back(held_out[g].sparsity);
  }
  const auto replayed = ReplayBudgets(trace, budgets, options, after_step);
  if (!replayed.ok()) return replayed.status();
  auto next = replayed->begin();
  for (Calibrated& result : *results) {
    result.calibrated.push_back(*next++);
    result.uniform.push_back(*next++);
    result.uniform_total.push_back(*next++);
    if (!held_out.empty()) result.held_out.push_back(*next++);
  }
  return absl::OkStatus();
}

}  // namespace

double MeanMiss(absl::Span<const MissSummary> traces) {
  double sum = 0;
  for (const MissSummary& miss : traces) sum += miss.mean;
  return sum / static_cast<double>(traces.size());
}

double WorstP99(absl::Span<const MissSummary> traces) {
  double worst = 0;
  for (const MissSummary& miss : traces) worst = std::max(worst, miss.p99);
  return worst;
}

absl::StatusOr<std::vector<Calibrated>> Calibrate(
    absl::Span<const trace::Trace> traces, absl::Span<const CalibrationGoal> goals,
    const ReplayOptions& options, const std::function<absl::Status(double)>& after_step) {
  if (absl::Status status = CheckTraces(traces); !status.ok()) return status;
  if (goals.empty()) return absl::InvalidArgumentError("there must be a goal");
  // Curves take far more trials than what is measured in the end.
  const double curve_cost = static_cast<double>(CurveSparsities().size());
  const double final_cost = 4.0 * static_cast<double>(goals.size());
  double all = 0, done = 0;
  for (const trace::Trace& trace : traces) all += trace.steps * (curve_cost + final_cost);
  const auto counting = [&](double cost) {
    return [&, cost] { return after_step(std::min(1.0, (done += cost) / all)); };
  };

  std::vector<LayerCurves> curves;
  for (const trace::Trace& trace : traces) {
    auto measured = MeasureLayerCurves(trace, options, counting(curve_cost));
    if (!measured.ok()) return measured.status();
    curves.push_back(*std::move(measured));
  }
  const calibration::AllocationLimits limits = LimitsFor(traces, options);
  std::vector<Calibrated> results;
  for (const CalibrationGoal& goal : goals) {
    auto budgets = Allocate(AllBut(curves, traces.size()), goal, limits);
    if (!budgets.ok()) return budgets.status();
    results.push_back({std::move(budgets->calibrated.sparsity),
                       budgets->calibrated.total_sparsity,
                       budgets->uniform.total_sparsity,
                       {},
                       {},
                       {},
                       {}});
  }
  for (size_t t = 0; t < traces.size(); ++t) {
    std::vector<Allocation> held_out;
    for (size_t g = 0; traces.size() > 1 && g < goals.size(); ++g) {
      auto budgets = Allocate(AllBut(curves, t), goals[g], limits);
      if (!budgets.ok()) return budgets.status();
      held_out.push_back(std::move(budgets->calibrated));
    }
    if (absl::Status status = Measure(traces[t], held_out, options, counting(final_cost), &results);
        !status.ok()) {
      return status;
    }
  }
  return results;
}

}  // namespace spin::prediction

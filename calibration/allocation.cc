// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "calibration/allocation.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace spin::calibration {
namespace {

using kernels::kRankBins;

constexpr double kUnit = 1.0 / kRankBins;  // of keep: budgets are dealt out in these
constexpr double kRounding = 1e-12;        // a sum of misses that should be 0 may be this

absl::Status CheckRange(absl::string_view name, double value, double low, double high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, ", must be between ", low, " and ", high));
}

absl::Status Check(absl::Span<const MissCurve> layers, absl::string_view goal_name, double goal,
                   const AllocationLimits& limits) {
  if (layers.empty()) return absl::InvalidArgumentError("layers: there must be at least one");
  absl::Status status = CheckRange(goal_name, goal, 0, 1);
  status.Update(CheckRange("min_keep", limits.min_keep, 0, 1));
  status.Update(CheckRange("exploration", limits.exploration, 0, 1));
  return status;
}

// One unit more for a layer: from keep share `unit` / kRankBins to the next.
struct Step {
  double gain;  // misses avoided per unit, by the layer's concave hull
  int unit;
  int layer;
};

int FirstUnit(const AllocationLimits& limits) {
  return std::clamp(static_cast<int>(std::ceil(limits.min_keep * kRankBins - 1e-9)), 1, kRankBins);
}

// The steps of one layer in their order. Along its lower convex hull the gain never rises, so that
// taking the steps of all layers by gain takes each layer's in order.
void AppendSteps(const std::vector<double>& misses, int first, int layer,
                 std::vector<Step>* steps) {
  std::vector<int> hull;
  const auto gain = [&](int from, int to) { return (misses[from] - misses[to]) / (to - from); };
  for (int unit = first; unit <= kRankBins; ++unit) {
    while (hull.size() >= 2 &&
           gain(hull[hull.size() - 2], hull.back()) <= gain(hull.back(), unit)) {
      hull.pop_back();
    }
    hull.push_back(unit);
  }
  for (size_t i = 1; i < hull.size(); ++i) {
    for (int unit = hull[i - 1]; unit < hull[i]; ++unit) {
      steps->push_back({gain(hull[i - 1], hull[i]), unit, layer});
    }
  }
}

// Deals out units until `enough`.
class Dealer {
 public:
  Dealer(absl::Span<const MissCurve> layers, const AllocationLimits& limits)
      : layers_(layers), limits_(limits), keep_(layers.size(), FirstUnit(limits)) {
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      misses_.push_back(layers[layer].Misses(limits.exploration));
      AppendSteps(misses_.back(), FirstUnit(limits), static_cast<int>(layer), &steps_);
      kept_ += FirstUnit(limits);
      missed_ += misses_.back()[FirstUnit(limits)];
    }
    // Of equal gains, and where there is nothing left to gain, the layer with the least comes
    // first.
    std::sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) {
      if (a.gain != b.gain) return a.gain > b.gain;
      return a.unit != b.unit ? a.unit < b.unit : a.layer < b.layer;
    });
  }

  Allocation KeepUnits(double units) {
    for (const Step& step : steps_) {
      if (kept_ >= units) break;
      Take(step, std::min(1.0, units - kept_));
    }
    return Read();
  }

  Allocation MissAtMost(double missed) {
    for (const Step& step : steps_) {
      if (missed_ <= missed + kRounding) break;
      const double saved = misses_[step.layer][step.unit] - misses_[step.layer][step.unit + 1];
      Take(step, saved > missed_ - missed ? (missed_ - missed) / saved : 1);
    }
    return Read();
  }

 private:
  void Take(const Step& step, double part) {
    const std::vector<double>& misses = misses_[step.layer];
    keep_[step.layer] += part;
    kept_ += part;
    missed_ -= part * (misses[step.unit] - misses[step.unit + 1]);
  }

  Allocation Read() const {
    Allocation out;
    for (const double keep : keep_) {
      out.sparsity.push_back(std::max(0.0, 1 - keep * kUnit));
      out.total_sparsity += out.sparsity.back() / static_cast<double>(keep_.size());
    }
    out.expected_miss = ExpectedMiss(layers_, out.sparsity, limits_.exploration);
    return out;
  }

  absl::Span<const MissCurve> layers_;
  const AllocationLimits& limits_;
  std::vector<std::vector<double>> misses_;  // [layers][kRankBins + 1]
  std::vector<Step> steps_;
  std::vector<double> keep_;  // [layers] units
  double kept_ = 0;           // their sum
  double missed_ = 0;         // sum of the layers' misses
};

Allocation Uniform(absl::Span<const MissCurve> layers, double sparsity,
                   const AllocationLimits& limits) {
  sparsity = std::min(sparsity, 1 - FirstUnit(limits) * kUnit);
  Allocation out = {std::vector<double>(layers.size(), sparsity), sparsity, 0};
  out.expected_miss = ExpectedMiss(layers, out.sparsity, limits.exploration);
  return out;
}

}  // namespace

absl::StatusOr<Allocation> AllocateAtSparsity(absl::Span<const MissCurve> layers,
                                              double total_sparsity,
                                              const AllocationLimits& limits) {
  absl::Status status = Check(layers, "total_sparsity", total_sparsity, limits);
  if (!status.ok()) return status;
  const double units = (1 - total_sparsity) * kRankBins * static_cast<double>(layers.size());
  return Dealer(layers, limits).KeepUnits(units);
}

absl::StatusOr<Allocation> AllocateAtMiss(absl::Span<const MissCurve> layers, double target_miss,
                                          const AllocationLimits& limits) {
  absl::Status status = Check(layers, "target_miss", target_miss, limits);
  if (!status.ok()) return status;
  return Dealer(layers, limits).MissAtMost(target_miss * static_cast<double>(layers.size()));
}

absl::StatusOr<Allocation> UniformAtSparsity(absl::Span<const MissCurve> layers,
                                             double total_sparsity,
                                             const AllocationLimits& limits) {
  absl::Status status = Check(layers, "total_sparsity", total_sparsity, limits);
  if (!status.ok()) return status;
  return Uniform(layers, total_sparsity, limits);
}

absl::StatusOr<Allocation> UniformAtMiss(absl::Span<const MissCurve> layers, double target_miss,
                                         const AllocationLimits& limits) {
  absl::Status status = Check(layers, "target_miss", target_miss, limits);
  if (!status.ok()) return status;
  double low = 0, high = 1;  // the miss at `low` is at most the target
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    const bool fits = Uniform(layers, middle, limits).expected_miss <= target_miss;
    (fits ? low : high) = middle;
  }
  return Uniform(layers, low, limits);
}

double ExpectedMiss(absl::Span<const MissCurve> layers, absl::Span<const double> sparsity,
                    double exploration) {
  double sum = 0;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    sum += layers[layer].Miss(1 - sparsity[layer], exploration);
  }
  return layers.empty() ? 0 : sum / static_cast<double>(layers.size());
}

std::vector<MissCurve> Shrunk(absl::Span<const MissCurve> layers, double prior_slots) {
  MissCurve pooled;
  for (const MissCurve& layer : layers) pooled.Add(layer);
  std::vector<MissCurve> out(layers.begin(), layers.end());
  if (pooled.slots() <= 0) return out;
  for (MissCurve& layer : out) layer.Add(pooled, prior_slots / pooled.slots());
  return out;
}

}  // namespace spin::calibration

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/expected_curves.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/audit_ranks.h"

namespace spin::prediction {
namespace {

using kernels::kRankBins;

constexpr double kSlots = 1e12;     // of a curve: shares as whole numbers
constexpr double kMostOdds = 6.25;  // log-odds of half a bin of all blocks, and of all but that
constexpr double kWidest = 2.5;     // of a normal distribution, in standard deviations
constexpr int kNodes = 21;          // that stand for it
constexpr std::array kSpreadLevels = {0.001, 0.003, 0.01, 0.03, 0.1, 0.2};

double LogOdds(double share) {
  return std::clamp(std::log(share / (1 - share)), -kMostOdds, kMostOdds);
}

double ShareAt(double log_odds) { return 1 / (1 + std::exp(-log_odds)); }

// Misses at which curves are compared, rising: 1e-6 to 1 - 1e-6, dense towards both ends.
constexpr int kLevels = 200;
double Level(int i) { return ShareAt(std::log(1e6) * (2.0 * i / (kLevels - 1) - 1)); }

// A piecewise linear function that falls: y at ascending x.
struct Falling {
  std::vector<double> x, y;

  double At(double at) const {
    if (at <= x.front()) return y.front();
    if (at >= x.back()) return y.back();
    const size_t i = std::upper_bound(x.begin(), x.end(), at) - x.begin();
    return y[i - 1] + (y[i] - y[i - 1]) * (at - x[i - 1]) / (x[i] - x[i - 1]);
  }

  // The least x with at most this y.
  double FirstAtMost(double value) const {
    size_t i = 0;
    while (i < y.size() && y[i] > value) ++i;
    if (i == 0) return x.front();
    if (i == y.size()) return x.back();
    return x[i - 1] + (x[i] - x[i - 1]) * (y[i - 1] - value) / (y[i - 1] - y[i]);
  }
};

// One layer's miss over the share that is kept: 1 where nothing is, 0 where all is.
Falling Measured(const std::vector<double>& miss) {
  const absl::Span<const double> sparsities = CurveSparsities();
  Falling curve = {{1}, {0}};
  for (size_t i = 0; i < miss.size(); ++i) {
    curve.x.push_back(1 - sparsities[i]);
    curve.y.push_back(std::max(miss[i], curve.y.back()));  // no smaller budget misses less
  }
  curve.x.push_back(0);
  curve.y.push_back(1);
  std::reverse(curve.x.begin(), curve.x.end());
  std::reverse(curve.y.begin(), curve.y.end());
  return curve;
}

// Of the traces' curves of a layer, in log-odds of the keep share: their mean at equal miss.
Falling Middle(absl::Span<const Falling> curves) {
  Falling middle = {{}, {}};
  const auto add = [&](double log_odds, double miss) {
    if (!middle.x.empty() && log_odds <= middle.x.back()) return;
    middle.x.push_back(log_odds);
    middle.y.push_back(miss);
  };
  for (int i = kLevels - 1; i >= 0; --i) {
    double sum = 0;
    for (const Falling& curve : curves) sum += LogOdds(curve.FirstAtMost(Level(i)));
    add(sum / static_cast<double>(curves.size()), Level(i));
  }
  double none = 0;  // from where on nothing is missed
  for (const Falling& curve : curves) none += LogOdds(curve.FirstAtMost(0));
  add(none / static_cast<double>(curves.size()), 0);
  return middle;
}

// E[middle(log_odds + X)], X normal with this standard deviation.
double Expected(const Falling& middle, double log_odds, double deviation) {
  double sum = 0, weights = 0;
  for (int i = 0; i < kNodes; ++i) {
    const double z = kWidest * (2.0 * i / (kNodes - 1) - 1);
    const double weight = std::exp(-z * z / 2);
    sum += weight * middle.At(log_odds + z * deviation);
    weights += weight;
  }
  return sum / weights;
}

calibration::MissCurve CurveOf(const Falling& middle, double deviation) {
  std::array<uint64_t, kRankBins> slots;
  double below = 0;  // what is missed with a bin more
  for (int bin = kRankBins - 1; bin >= 0; --bin) {
    const double keep = static_cast<double>(bin) / kRankBins;
    const double here = bin == 0 ? 1 : std::max(below, Expected(middle, LogOdds(keep), deviation));
    slots[bin] = static_cast<uint64_t>((here - below) * kSlots);
    below = here;
  }
  calibration::MissCurve curve;
  curve.Add(slots);
  return curve;
}

std::vector<Falling> MeasuredOfLayer(absl::Span<const LayerCurves* const> traces, size_t layer) {
  std::vector<Falling> curves;
  for (const LayerCurves* trace : traces) curves.push_back(Measured(trace->miss[layer]));
  return curves;
}

// Of the log-odds at which the curves come down to `level`.
double Variance(absl::Span<const Falling> curves, double level) {
  double sum = 0, squares = 0;
  for (const Falling& curve : curves) {
    const double log_odds = LogOdds(curve.FirstAtMost(level));
    sum += log_odds;
    squares += log_odds * log_odds;
  }
  const double n = static_cast<double>(curves.size());
  return std::max(0.0, (squares - sum * sum / n) / (n - 1));
}

}  // namespace

double SpreadOfTexts(absl::Span<const LayerCurves* const> traces) {
  constexpr double kTypical = kTypicalSpread * kTypicalSpread;
  if (traces.size() < 2) return kTypicalSpread;
  const size_t layers = traces[0]->miss.size();
  double variance = 0;  // mean over layers and levels
  for (size_t layer = 0; layer < layers; ++layer) {
    const std::vector<Falling> curves = MeasuredOfLayer(traces, layer);
    for (const double level : kSpreadLevels) variance += Variance(curves, level);
  }
  variance /= static_cast<double>(layers * kSpreadLevels.size());
  const double n = static_cast<double>(traces.size());
  return std::sqrt((kTypical + (n - 1) * variance) / n);
}

std::vector<calibration::MissCurve> ExpectedCurves(absl::Span<const LayerCurves* const> traces,
                                                   double spread) {
  std::vector<calibration::MissCurve> expected;
  const size_t layers = traces.empty() ? 0 : traces[0]->miss.size();
  for (size_t layer = 0; layer < layers; ++layer) {
    const double deviation = spread * std::sqrt(1 + 1 / static_cast<double>(traces.size()));
    expected.push_back(CurveOf(Middle(MeasuredOfLayer(traces, layer)), deviation));
  }
  return expected;
}

}  // namespace spin::prediction

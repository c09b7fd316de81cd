// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/quantile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

namespace spin::trace {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <typename T>
double MeanOf(absl::Span<const T> values) {
  if (values.empty()) return kNaN;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// From the nearer end, so that t = 1 gives b exactly. Equal ends are returned as they are: the
// difference of two equal infinities would be NaN.
double Interpolate(double a, double b, double t) {
  if (a == b) return a;
  return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1.0 - t);
}

// Takes its own copy, to order it as far as needed.
double PercentileOf(std::vector<double> values, double percent) {
  const auto is_nan = [](double v) { return std::isnan(v); };
  if (values.empty() || std::isnan(percent)) return kNaN;
  if (std::any_of(values.begin(), values.end(), is_nan)) return kNaN;
  const double rank = (values.size() - 1) * (std::clamp(percent, 0.0, 100.0) / 100.0);
  const auto low = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), low, values.end());
  const auto high = low + 1 == values.end() ? low : std::min_element(low + 1, values.end());
  return Interpolate(*low, *high, rank - std::floor(rank));
}

}  // namespace

double Mean(absl::Span<const double> values) { return MeanOf(values); }

double Mean(absl::Span<const float> values) { return MeanOf(values); }

double Percentile(absl::Span<const double> values, double percent) {
  return PercentileOf({values.begin(), values.end()}, percent);
}

double Percentile(absl::Span<const float> values, double percent) {
  return PercentileOf({values.begin(), values.end()}, percent);
}

}  // namespace spin::trace

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/score_count.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "trace/scorer.h"

namespace spin::trace {
namespace {

constexpr double kLargestCode = 448;                                     // of FP8 E4M3
constexpr double kLargestSum = std::numeric_limits<float>::max() / 2.0;  // room for rounding

bool AnyNanCode(const std::vector<uint8_t>& codes) {
  return std::any_of(codes.begin(), codes.end(),
                     [](uint8_t code) { return (code & 0x7f) == 0x7f; });
}

// The largest magnitude; infinity if one is not finite.
double Largest(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, double{std::abs(value)});
  }
  return largest;
}

// Whether no score can be NaN or infinite: no value is, and no sum on the way overflows.
bool AllFinite(const Trace& trace) {
  if (AnyNanCode(trace.k) || AnyNanCode(trace.q)) return false;
  const double sum =
      kLargestCode * kLargestCode * trace.dim * trace.heads * std::max(Largest(trace.w), 1.0);
  return sum * std::max(Largest(trace.k_scale), 1.0) < kLargestSum;
}

}  // namespace

absl::StatusOr<ScoreCount> CountScores(const Trace& trace, int steps,
                                       const std::function<absl::Status()>& after_layer) {
  ScoreCount count;
  for (int step = 0; step < steps; ++step) count.all += int64_t{trace.layers} * trace.Context(step);
  if (AllFinite(trace)) return count;
  const Scorer scorer(trace);
  std::vector<float> scores(trace.Context(steps - 1));
  for (int layer = 0; layer < trace.layers; ++layer) {
    for (int step = 0; step < steps; ++step) {
      const int seen = scorer.ScoreAll(layer, step, scores.data());
      for (int slot = 0; slot < seen; ++slot) {
        count.nan += std::isnan(scores[slot]);
        count.infinite += std::isinf(scores[slot]);
      }
    }
    if (absl::Status status = after_layer(); !status.ok()) return status;
  }
  return count;
}

}  // namespace spin::trace

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "calibration/miss_curve.h"

#include <algorithm>
#include <numeric>

namespace spin::calibration {

using kernels::kRankBins;

void MissCurve::Add(absl::Span<const uint64_t> slots) {
  for (size_t i = 0; i < std::min(slots.size(), bins_.size()); ++i) {
    bins_[i] += static_cast<double>(slots[i]);
  }
}

void MissCurve::Add(const MissCurve& other, double weight) {
  for (size_t i = 0; i < bins_.size(); ++i) bins_[i] += weight * other.bins_[i];
}

void MissCurve::Decay(double factor) {
  for (double& bin : bins_) bin *= factor;
}

double MissCurve::slots() const { return std::accumulate(bins_.begin(), bins_.end(), 0.0); }

// Share of the slots whose rank is at or past `share` of the blocks.
double MissCurve::ShareFrom(double share) const {
  const double all = slots();
  if (all <= 0) return 1 - share;
  const double edge = share * kRankBins;
  const int bin = std::min(static_cast<int>(edge), kRankBins - 1);
  const double rest = std::accumulate(bins_.begin() + bin + 1, bins_.end(), 0.0);
  return (rest + (bin + 1 - edge) * bins_[bin]) / all;
}

double MissCurve::Miss(double keep, double exploration) const {
  keep = std::clamp(keep, 0.0, 1.0);
  const double best = keep * (1 - std::clamp(exploration, 0.0, 1.0));
  const double left = 1 - best;  // blocks the draw is from
  const double drawn = left > 0 ? (keep - best) / left : 1;
  return std::max(0.0, ShareFrom(best) * (1 - drawn));
}

}  // namespace spin::calibration

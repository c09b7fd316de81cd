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

MissCurve::Tail MissCurve::TailFrom() const {
  Tail tail;
  tail[kRankBins] = 0;
  for (int bin = kRankBins - 1; bin >= 0; --bin) tail[bin] = tail[bin + 1] + bins_[bin];
  const double all = tail[0];
  for (int edge = 0; edge <= kRankBins; ++edge) {
    tail[edge] = all > 0 ? tail[edge] / all : 1 - static_cast<double>(edge) / kRankBins;
  }
  return tail;
}

double MissCurve::MissOf(const Tail& tail, double keep, double exploration) {
  keep = std::clamp(keep, 0.0, 1.0);
  const double best = keep * (1 - std::clamp(exploration, 0.0, 1.0));
  const double left = 1 - best;  // blocks the draw is from
  const double drawn = left > 0 ? (keep - best) / left : 1;
  const double edge = best * kRankBins;
  const int bin = std::min(static_cast<int>(edge), kRankBins - 1);
  const double outside = tail[bin] + (edge - bin) * (tail[bin + 1] - tail[bin]);
  return std::max(0.0, outside * (1 - drawn));
}

double MissCurve::Miss(double keep, double exploration) const {
  return MissOf(TailFrom(), keep, exploration);
}

std::vector<double> MissCurve::Misses(double exploration) const {
  const Tail tail = TailFrom();
  std::vector<double> out(kRankBins + 1);
  for (int unit = 0; unit <= kRankBins; ++unit) {
    out[unit] = MissOf(tail, static_cast<double>(unit) / kRankBins, exploration);
  }
  return out;
}

}  // namespace spin::calibration

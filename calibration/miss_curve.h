// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/audit_ranks.h"

namespace spin::calibration {

// The miss of one layer as a function of its budget: which share of the true top-K lies outside a
// list that keeps the best `keep` of all blocks. Learnt from audits: a histogram over the relative
// ranks (kernels/audit_ranks.h) of the blocks that hold the true top-K slots. 2 KiB, whatever is
// added. A value type; not thread-safe.
class MissCurve {
 public:
  // One true top-K slot whose block had this rank, 0 to blocks - 1, among `blocks`.
  void AddSlot(int32_t rank, int32_t blocks) { bins_[kernels::RankBin(rank, blocks)] += 1; }

  // A histogram, such as an audit's: slots[i] true top-K slots in bin i. Exactly kRankBins entries.
  void Add(absl::Span<const uint64_t> slots);

  // `weight` times another curve's slots.
  void Add(const MissCurve& other, double weight = 1);

  // Multiplies all slots with `factor`, in [0, 1]: how old data is forgotten.
  void Decay(double factor);

  // Slots in the histogram, after all decay.
  double slots() const;

  // The expected miss, in [0, 1], if `keep`, a share of all blocks in [0, 1], is kept, and of the
  // kept ones `exploration` (gamma) are drawn at random from those that the prediction left. Falls
  // as `keep` rises; 0 at 1. Linear between the edges of the bins. A curve without slots answers as
  // if every rank were equally likely.
  double Miss(double keep, double exploration = 0) const;

  // Miss(i / kRankBins, exploration) for i = 0 to kRankBins.
  std::vector<double> Misses(double exploration) const;

 private:
  // Share of the slots whose rank is at or past each edge of the bins.
  using Tail = std::array<double, kernels::kRankBins + 1>;
  Tail TailFrom() const;
  static double MissOf(const Tail& tail, double keep, double exploration);

  std::array<double, kernels::kRankBins> bins_ = {};
};

}  // namespace spin::calibration

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "client/cli/replay/judge.h"

namespace spin::cli {

// What sparsity cost, over a set of (layer, step) pairs. A pair's miss is missed / truth.
struct Quality {
  double miss_mean = 0;
  double miss_p99 = 0;           // linear interpolation over the pairs
  double recall = 0;             // mean share of the true top-K that the engine's own top-K holds
  double realized_sparsity = 0;  // 1 - scored blocks / considered blocks
};

// Sums verdicts up. The caller leaves step 0 out: it scans everything, whatever the policy.
class QualityMeter {
 public:
  void Add(const Verdict& verdict);
  void Add(const QualityMeter& other);

  Quality Read() const;
  int64_t kept_slots() const { return kept_slots_; }
  int64_t considered_slots() const { return considered_slots_; }

 private:
  std::vector<double> miss_, recall_;
  int64_t kept_blocks_ = 0, considered_blocks_ = 0;
  int64_t kept_slots_ = 0, considered_slots_ = 0;
};

}  // namespace spin::cli

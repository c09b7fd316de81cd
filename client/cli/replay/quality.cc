// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/quality.h"

#include "trace/quantile.h"

namespace spin::cli {

void QualityMeter::Add(const Verdict& verdict) {
  const double truth = verdict.truth;
  miss_.push_back(verdict.missed / truth);
  recall_.push_back(verdict.found / truth);
  kept_blocks_ += verdict.kept_blocks;
  considered_blocks_ += verdict.considered_blocks;
  kept_slots_ += verdict.kept_slots;
  considered_slots_ += verdict.considered_slots;
}

void QualityMeter::Add(const QualityMeter& other) {
  miss_.insert(miss_.end(), other.miss_.begin(), other.miss_.end());
  recall_.insert(recall_.end(), other.recall_.begin(), other.recall_.end());
  kept_blocks_ += other.kept_blocks_;
  considered_blocks_ += other.considered_blocks_;
  kept_slots_ += other.kept_slots_;
  considered_slots_ += other.considered_slots_;
}

Quality QualityMeter::Read() const {
  const double kept = static_cast<double>(kept_blocks_);
  return {trace::Mean(miss_), trace::Percentile(miss_, 99), trace::Mean(recall_),
          1 - kept / static_cast<double>(considered_blocks_)};
}

}  // namespace spin::cli

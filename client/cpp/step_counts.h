// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "dataplane/time_histogram.h"
#include "spin/session.h"
#include "spin/v1/session.pb.h"

namespace spin::internal {

// What the client counts. Written by the decode loop, read from anywhere; no locks. Totals of the
// whole Session, and per life of it for the reports (spind adds lives up itself).
class StepCounts {
 public:
  void CountRow(Reason reason) { Bump(rows_[static_cast<size_t>(reason)], 1); }
  // A row that was counted as predicted kept all blocks after all.
  void CountStale() { Bump(rows_[static_cast<size_t>(Reason::kStale)], 1); }
  void CountStep() { Bump(steps_, 1); }
  void CountReconnect() { Bump(reconnects_, 1); }
  void CountUnobserved(int64_t blocks) { Bump(unobserved_blocks_, blocks); }
  void CountTimes(absl::Duration observe, absl::Duration predict) {
    observe_time_.Add(observe);
    predict_time_.Add(predict);
  }
  void CountRpc(absl::Duration duration) {
    Bump(rpc_nanoseconds_, absl::ToInt64Nanoseconds(duration));
  }

  SessionStats Stats() const;

  // What this life of the session has to report so far, with what was counted while there was none.
  // `inline_executor` says whether steps and times are the client's to report. For the link's
  // thread alone.
  v1::ClientReport Report(bool inline_executor);

  // A new life begins at spind, whose totals start at 0. For the link's thread alone.
  void StartLife() { baseline_ = reported_; }

 private:
  static void Bump(std::atomic<uint64_t>& value, int64_t more) {
    value.fetch_add(more > 0 ? static_cast<uint64_t>(more) : 0, std::memory_order_relaxed);
  }

  std::array<std::atomic<uint64_t>, kReasonCount> rows_ = {};
  std::atomic<uint64_t> steps_ = 0;
  std::atomic<uint64_t> reconnects_ = 0;
  std::atomic<uint64_t> unobserved_blocks_ = 0;
  std::atomic<uint64_t> rpc_nanoseconds_ = 0;
  dataplane::TimeHistogram observe_time_;
  dataplane::TimeHistogram predict_time_;

  struct Baseline {
    uint64_t steps = 0;
    uint64_t unobserved_blocks = 0;
    std::array<uint64_t, kReasonCount> rows = {};
    dataplane::TimeHistogram::Snapshot observe = {};
    dataplane::TimeHistogram::Snapshot predict = {};
  };
  Baseline Now() const;
  Baseline baseline_;  // where this life's reports start
  Baseline reported_;  // as of the last report
};

}  // namespace spin::internal

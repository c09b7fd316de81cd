// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/step_counts.h"

namespace spin::internal {
namespace {

using Snapshot = dataplane::TimeHistogram::Snapshot;

// The contract's name for a reason that is a fallback.
v1::FallbackReason ToProto(Reason reason) {
  switch (reason) {
    case Reason::kCold:
      return v1::FALLBACK_REASON_COLD;
    case Reason::kNoSidecar:
      return v1::FALLBACK_REASON_NO_SIDECAR;
    case Reason::kDeadline:
      return v1::FALLBACK_REASON_DEADLINE;
    case Reason::kEpoch:
      return v1::FALLBACK_REASON_EPOCH;
    case Reason::kCapacity:
      return v1::FALLBACK_REASON_CAPACITY;
    case Reason::kStale:
      return v1::FALLBACK_REASON_STALE;
    case Reason::kPosition:
      return v1::FALLBACK_REASON_POSITION;
    case Reason::kInvalid:
      return v1::FALLBACK_REASON_INVALID;
    case Reason::kInternal:
      return v1::FALLBACK_REASON_INTERNAL;
    case Reason::kNone:
    case Reason::kAudit:
    case Reason::kOff:
      break;
  }
  return v1::FALLBACK_REASON_UNSPECIFIED;
}

void FillTime(const Snapshot& now, const Snapshot& baseline, v1::TimeHistogram* out) {
  for (size_t i = 0; i < now.buckets.size(); ++i) {
    out->add_buckets(now.buckets[i] - baseline.buckets[i]);
  }
  out->set_sum_seconds(now.sum_seconds - baseline.sum_seconds);
}

}  // namespace

StepCounts::Baseline StepCounts::Now() const {
  Baseline now;
  now.steps = steps_.load(std::memory_order_relaxed);
  now.unobserved_blocks = unobserved_blocks_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < now.rows.size(); ++i)
    now.rows[i] = rows_[i].load(std::memory_order_relaxed);
  now.observe = observe_time_.Read();
  now.predict = predict_time_.Read();
  return now;
}

v1::ClientReport StepCounts::Report(bool inline_executor) {
  const Baseline now = Now();
  reported_ = now;
  v1::ClientReport report;
  uint64_t rows = 0;
  for (int i = 0; i < kReasonCount; ++i) {
    rows += now.rows[i] - baseline_.rows[i];
    const v1::FallbackReason reason = ToProto(static_cast<Reason>(i));
    if (reason == v1::FALLBACK_REASON_UNSPECIFIED) continue;
    v1::FallbackCount& count = *report.add_fallback_rows();
    count.set_reason(reason);
    count.set_rows(now.rows[i] - baseline_.rows[i]);
  }
  report.set_rows(rows);
  report.set_unobserved_full_blocks(now.unobserved_blocks - baseline_.unobserved_blocks);
  if (inline_executor) {
    report.set_steps(now.steps - baseline_.steps);
    FillTime(now.observe, baseline_.observe, report.mutable_observe_time());
    FillTime(now.predict, baseline_.predict, report.mutable_predict_time());
  }
  return report;
}

SessionStats StepCounts::Stats() const {
  const Baseline now = Now();
  SessionStats stats;
  stats.steps = now.steps;
  for (int i = 0; i < kReasonCount; ++i) stats.rows_by_reason[i] = now.rows[i];
  stats.reconnects = reconnects_.load(std::memory_order_relaxed);
  stats.predict_seconds = now.predict.sum_seconds;
  stats.observe_seconds = now.observe.sum_seconds;
  stats.rpc_seconds = static_cast<double>(rpc_nanoseconds_.load(std::memory_order_relaxed)) * 1e-9;
  return stats;
}

}  // namespace spin::internal

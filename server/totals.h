// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "dataplane/time_histogram.h"
#include "kernels/counters.h"
#include "kernels/layer_audits.h"
#include "spin/v1/session.pb.h"

// What is counted for a session, as plain sums: read from the slab, from the client's reports and
// from spind's own work. Totals only grow, whatever a broken client writes.
namespace spin::server {

// Indexed by v1::FallbackReason; entry 0 is unused.
inline constexpr int kFallbackReasons = v1::FallbackReason_MAX + 1;

struct TimeTotals {
  std::array<uint64_t, dataplane::kTimeBounds.size() + 1> buckets = {};
  double sum_seconds = 0;

  TimeTotals& operator+=(const TimeTotals& other);
  TimeTotals& operator+=(const dataplane::TimeHistogram::Snapshot& other);
};

struct SessionTotals {
  uint64_t steps = 0;
  std::vector<kernels::LayerCounters> layers;
  std::vector<kernels::LayerAudits> audits;  // as many as layers
  // Missed slots over the session's K, in millionths, of each layer: what the misses of audited
  // rows add up to, but for rows with fewer than K slots.
  std::vector<uint64_t> miss_millionths;
  uint64_t rows = 0;  // fallback_rows are some of these
  std::array<uint64_t, kFallbackReasons> fallback_rows = {};
  TimeTotals predict_time;
  TimeTotals observe_time;
  uint64_t budget_changes = 0;  // that spind made itself
  uint64_t budget_fallbacks = 0;

  // Layer by layer; the longer list of layers wins.
  SessionTotals& operator+=(const SessionTotals& other);
};

// The larger of two counts. A total that went backward, or that is absurdly large, is not believed.
uint64_t Raised(uint64_t now, uint64_t total);

// The same for each pair of counters.
void RaiseTo(const kernels::LayerCounters& now, kernels::LayerCounters* total);
void RaiseTo(const kernels::LayerAudits& now, kernels::LayerAudits* total);

// The same for what a client reports of itself. NaN, negative and absurd values change nothing.
void RaiseTo(const v1::TimeHistogram& now, TimeTotals* total);

}  // namespace spin::server

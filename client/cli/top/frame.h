// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "spin/v1/stats.pb.h"

// What `top` shows, from one or two looks at the totals. No terminal here.
namespace spin::cli {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Shares and rates cover the time since the look before, or, where there is none or nothing
// happened since, the time since the session was opened (`recent` is false then). kUnknown: nothing
// to divide by.
struct SessionFrame {
  std::string id;
  std::string model;
  bool recent = false;
  double target_sparsity = 0;
  double realized_sparsity = kUnknown;
  uint64_t predicted_blocks = 0, explored_blocks = 0, pinned_blocks = 0, full_blocks = 0;
  double steps_per_second = kUnknown;
  double predict_seconds = kUnknown;  // mean of a step
  double observe_seconds = kUnknown;
  std::vector<double> layer_sparsity;

  // Since the session was opened: audits are rare.
  uint64_t steps = 0;
  uint64_t audit_topk_slots = 0, audit_missed_slots = 0;
  double miss = kUnknown;
  std::vector<double> layer_miss;
  uint64_t audited_rows = 0;
  double audit_cost = kUnknown;  // blocks scored for audits alone, of all blocks considered
  std::vector<std::pair<std::string, uint64_t>> fallbacks;  // all reasons

  // At this moment.
  uint32_t open_requests = 0;
  uint64_t state_bytes = 0;
  uint64_t policy_epoch = 0;
  bool switched_off = false;
  v1::BudgetStats budget;
  std::vector<double> layer_target;  // sparsity that the policy asks of each layer
};

struct Frame {
  absl::Time taken_at;
  v1::ServerInfo server;
  std::vector<SessionFrame> sessions;
};

// `before` may be null.
Frame MakeFrame(const v1::WatchStatsResponse& now, const v1::WatchStatsResponse* before);

}  // namespace spin::cli

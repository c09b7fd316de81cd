// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/replay/player.h"
#include "client/cli/replay/replay_flags.h"
#include "client/cli/terminal/terminal.h"
#include "spin/session.h"
#include "trace/score_count.h"
#include "trace/trace.h"

namespace spin::cli {

// What spind itself counted in the session.
struct ServerCounts {
  uint64_t epoch = 0;
  std::string admin_address;
  uint64_t audit_topk_slots = 0;
  uint64_t audit_missed_slots = 0;
  uint64_t budget_changes = 0;
  uint64_t budget_fallbacks = 0;
  double target_sparsity = 0;
  std::vector<double> layer_sparsity;
  std::string budget_reason;
};

// All that there is to say about a replay.
struct ReplayReport {
  const ReplayFlags& flags;
  const trace::Trace& trace;
  const PlayResult& played;
  SessionStats client;
  std::optional<ServerCounts> server;  // unset if spind could not be asked any more
  trace::ScoreCount scores;            // of the traces, each counted once
  bool on_gpu = false;                 // the engine; full scans are the host's, to check it

  QualityMeter Total() const;
  // Rows that kept all blocks out of doubt, except for the first of each request, which has no
  // history.
  uint64_t UnexpectedFallbacks() const;
};

std::string ReportJson(const ReplayReport& report);
std::string ReportText(const ReplayReport& report, const Terminal& terminal);

}  // namespace spin::cli

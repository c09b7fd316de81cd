// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "client/cpp/opened_session.h"
#include "client/cpp/request_state.h"
#include "kernels/rows.h"
#include "spin/session.h"

namespace spin::internal {

// One row of the step in progress.
struct StepRowState {
  std::shared_ptr<RequestState> request;  // null if the engine named none
  RequestBinding binding;
  int64_t position = 0;
  uint32_t next_n = 1;
  uint32_t next_next_n = 1;
  uint32_t accepted = 1;
  Reason reason = Reason::kNone;
  bool observe = false;         // its scores enter the state
  bool resync = false;          // it goes on after a gap
  uint32_t buffer = 0;          // of the list in force
  bool in_range = false;        // position and next_n are ones that the session was created for
  int32_t blocks = 0;           // B; 0 also if not in range
  int32_t all_blocks = 0;       // B of any context that there may be
  std::vector<int32_t> kept;    // [layers][max_blocks], a private copy of the lists
  std::vector<int32_t> counts;  // [layers] entries of each list

  bool sparse() const { return reason == Reason::kNone; }
  // A list was promised for this very step. An audited row is scored in full, and compared with it.
  bool has_list() const { return sparse() || reason == Reason::kAudit; }
  kernels::Coverage coverage() const {
    return sparse() ? kernels::Coverage::kKept : kernels::Coverage::kAll;
  }
};

// The step in progress of a session. Reused from step to step, so that the decode loop allocates
// nothing once warm.
struct StepState {
  std::shared_ptr<OpenedSession> session;  // null: no spind; holds the mapping while the step runs
  std::shared_ptr<const PolicyInForce> policy;
  uint64_t serial = 0;  // of the step; a Step with another one is void
  bool active = false;
  bool broken = false;  // something failed: do not observe
  int row_count = 0;
  int layers_taken = 0;
  std::vector<bool> layer_taken;           // [layers]
  std::vector<StepRowState> rows;          // [max_requests]; the first row_count are in use
  std::vector<kernels::ScoredRow> scored;  // rows that are observed
  std::vector<kernels::ScoredRow> audited;
  std::vector<kernels::Row> next;
  absl::Duration observe_time;  // spent so far
  absl::Duration predict_time;
};

}  // namespace spin::internal

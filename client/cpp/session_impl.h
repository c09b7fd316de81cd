// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/types.h>

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/cpp/executor.h"
#include "client/cpp/link.h"
#include "client/cpp/row_planner.h"
#include "client/cpp/step_counts.h"
#include "client/cpp/step_state.h"
#include "spin/session.h"

namespace spin::internal {

// Behind spin::Session: the link, the executor and the step in progress.
class SessionImpl {
 public:
  explicit SessionImpl(const SessionOptions& options);

  Link& link() { return link_; }
  StepCounts& counts() { return counts_; }
  const SessionOptions& options() const { return options_; }

  // Whether this is still the process that created the session. A forked child has no threads and
  // no connection.
  bool in_owner_process() const;

  uint64_t BeginStep(absl::Span<const StepRow> rows);
  KeptBlocks Kept(uint64_t serial, int layer, int row) const;
  void PutScores(uint64_t serial, int layer, const Scores& scores);
  void EndStep(uint64_t serial, const EndOptions& options);
  void DropStep(uint64_t serial);

 private:
  std::shared_ptr<OpenedSession> HostSession() const;
  void TakeRow(int r);
  void NameBlocks(int32_t count);
  Reason TakeLists(StepRowState& row);
  void Forget();
  void Finish();
  bool IsCurrent(uint64_t serial) const { return step_.active && step_.serial == serial; }

  const SessionOptions options_;
  const pid_t owner_pid_;
  StepCounts counts_;
  Link link_;
  RowPlanner planner_;
  std::vector<int32_t> everything_;  // 0, 1, 2, ...: as many blocks as any context had
  const std::unique_ptr<Executor> executor_;
  StepState step_;
};

}  // namespace spin::internal

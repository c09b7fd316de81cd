// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/quarantine.h"
#include "server/session.h"

namespace spin::server {

// Why a session ended; names are label values of spin_session_ends_total.
enum class EndReason { kClosed, kDetached, kConnectionLost, kPeerExited, kShutdown };
inline constexpr std::array<EndReason, 5> kEndReasons = {
    EndReason::kClosed, EndReason::kDetached, EndReason::kConnectionLost, EndReason::kPeerExited,
    EndReason::kShutdown};
absl::string_view EndReasonName(EndReason reason);

// Totals of all sessions that a model ever had, so that closing one never lowers a counter.
struct ModelTotals {
  SessionTotals totals;
  int open_sessions = 0;
  // Of the session opened last; 0 if switched off.
  double target_sparsity = 0;
  std::vector<double> layer_target_sparsity;
  v1::BudgetStats budget;  // empty without a session
  uint64_t policy_epoch = 0;
};

// All open sessions. Thread-safe. Whoever takes a session out of the table is the one who ends it:
// an end that client, stream, connection and process exit all ask for happens once.
class SessionTable {
 public:
  explicit SessionTable(Quarantine* quarantine) : quarantine_(quarantine) {}

  // RESOURCE_EXHAUSTED if kMaxSessions are open.
  absl::Status Add(std::shared_ptr<Session> session);

  // UNKNOWN_SESSION if there is none.
  absl::StatusOr<std::shared_ptr<Session>> Find(uint64_t id) const;

  // All of them, in the order of their opening.
  std::vector<std::shared_ptr<Session>> All() const;

  // Ends one session; false if it was gone already. After a clean close its memory is free as soon
  // as steps of its own are over; otherwise it is quarantined until the peer can no longer write
  // there.
  bool End(uint64_t id, EndReason reason);

  // Ends what belongs to a process that is gone, and frees all that was quarantined for it.
  void EndProcess(pid_t pid);

  // Ends what was opened on a connection that is gone and never attached.
  void EndUnattached(uint64_t connection);

  void EndAll();

  // Per model; at most kMaxModels names, the rest together under "other".
  std::map<std::string, ModelTotals> TotalsByModel() const;
  uint64_t opened() const;
  uint64_t ended(EndReason reason) const;

 private:
  static constexpr size_t kMaxModels = 32;

  std::string LabelOf(const std::string& model_name) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  template <typename Matches>
  std::vector<uint64_t> IdsOf(Matches matches) const;

  Quarantine* const quarantine_;
  mutable absl::Mutex mutex_;
  std::vector<std::shared_ptr<Session>> sessions_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, ModelTotals> retired_ ABSL_GUARDED_BY(mutex_);
  uint64_t opened_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<uint64_t, kEndReasons.size()> ended_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace spin::server

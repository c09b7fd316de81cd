// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "dataplane/step_runner.h"
#include "dataplane/time_histogram.h"
#include "server/peer.h"
#include "server/policy.h"
#include "server/recording.h"
#include "server/request_table.h"
#include "server/session_budgets.h"
#include "server/session_region.h"
#include "server/totals.h"
#include "spin/v1/session.pb.h"
#include "spin/v1/stats.pb.h"

namespace spin::server {

// A policy together with its epoch and its form for the kernels.
struct PolicyInForce {
  Policy policy;
  uint64_t epoch = 1;
  kernels::Policy kernels;
  std::string reason;  // what made it, for people
  absl::Time changed_at;
};

// The liveness stream of a session, as the session sees it. Called under a lock of the session:
// must not call back, must not block.
class SessionListener {
 public:
  virtual ~SessionListener() = default;
  virtual void OnPolicyChanged(std::shared_ptr<const PolicyInForce> policy) = 0;
  virtual void OnRecordingOrdered(const v1::RecordingOrder& order) = 0;
  virtual void OnEnded(const absl::Status& why) = 0;
};

// What never changes about a session.
struct SessionIdentity {
  uint64_t id = 0;
  std::string model_name;
  std::string client_name;
  v1::Executor executor = v1::EXECUTOR_INLINE;
  bool zero_init = false;
  bool allow_recording = false;
  Peer peer;
  absl::Time opened_at;
};

// One engine rank's session. Thread-safe, except where the step thread is named.
class Session {
 public:
  // `reason` says, for people, where the policy comes from.
  Session(SessionIdentity identity, std::shared_ptr<SessionRegion> region, Policy policy,
          std::string reason = "as the session was opened");

  const SessionIdentity& identity() const { return identity_; }
  const SessionRegion& region() const { return *region_; }
  int layers() const { return region_->shape().geometry.layers; }
  RequestTable& requests() { return requests_; }

  std::shared_ptr<const PolicyInForce> policy() const;
  // What a checked change would make of the policy that does not go together.
  std::optional<PolicyConflict> ConflictOf(const v1::Policy& change) const;
  // Applies a checked change of a caller, and tells the client. Budgets that were learnt stay,
  // unless the change is about budgets.
  std::shared_ptr<const PolicyInForce> UpdatePolicy(const v1::Policy& change)
      ABSL_LOCKS_EXCLUDED(budgets_mutex_);

  // Where the policy has audits and learns from them: looks at what was audited since the last
  // time, changes the budgets if need be, and tells the client. Else nothing, not even a read of
  // the slab.
  void ReviewBudgets() ABSL_LOCKS_EXCLUDED(budgets_mutex_);

  // The one liveness stream. False if there is one already, or the session has ended.
  bool Attach(SessionListener* listener);
  void Detach(SessionListener* listener);
  bool attached() const;

  // Asks the client for a recording with these checked options; returns its id.
  // FAILED_PRECONDITION, ALREADY_EXISTS as the contract has it.
  absl::StatusOr<uint64_t> StartRecording(const v1::RecordingOptions& options);
  absl::StatusOr<v1::RecordingStatus> StopRecording(uint64_t id);

  // Called once, by the table that drops the session: steps end with ABORTED, the stream is told.
  void End(const absl::Status& why);
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  // Keeps a closed request's memory until the engine's timeline word has reached `after`.
  void Quarantine(std::shared_ptr<Request> request, uint64_t after);
  // Lets go of the requests whose time has come.
  void Sweep();

  void TakeReport(const v1::ClientReport& report);
  SessionTotals Totals();
  uint64_t state_bytes() const { return region_->bytes() + requests_.state_bytes(); }

  v1::SessionInfo Info();
  v1::SessionStats Stats();
  // How the budgets of this policy came about; `totals` are the session's.
  v1::BudgetStats Budgets(const PolicyInForce& in_force, const SessionTotals& totals)
      ABSL_LOCKS_EXCLUDED(budgets_mutex_);

  // Of the sidecar executor; the step thread only.
  struct StepBuffers {
    explicit StepBuffers(int max_requests);
    std::vector<std::shared_ptr<Request>> requests;
    std::vector<Request::StepState> before;  // of the same requests, as the step found them
    std::vector<kernels::ScoredRow> scored;
    std::vector<kernels::ScoredRow> audited;
    std::vector<kernels::Row> next;
    uint64_t serial = 0;
  };
  StepBuffers& step_buffers() { return step_buffers_; }
  dataplane::StepRunner& runner() { return runner_; }
  void CountStep(absl::Duration observe, absl::Duration predict);

 private:
  // Makes `policy` the one in force.
  std::shared_ptr<const PolicyInForce> Enforce(Policy policy, std::string reason)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const SessionIdentity identity_;
  const std::shared_ptr<SessionRegion> region_;
  RequestTable requests_;
  dataplane::StepRunner runner_;
  StepBuffers step_buffers_;
  std::atomic<bool> ended_ = false;
  std::atomic<uint64_t> steps_ = 0;
  dataplane::TimeHistogram predict_time_;
  dataplane::TimeHistogram observe_time_;

  // Whoever changes the policy. Held while budgets are computed, which the step path must not wait
  // for: that only takes mutex_.
  absl::Mutex budgets_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  SessionBudgets budgets_ ABSL_GUARDED_BY(budgets_mutex_);

  mutable absl::Mutex mutex_;
  std::shared_ptr<const PolicyInForce> policy_ ABSL_GUARDED_BY(mutex_);
  SessionListener* listener_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Recording recording_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<uint64_t, std::shared_ptr<Request>>> quarantine_ ABSL_GUARDED_BY(mutex_);

  absl::Mutex totals_mutex_;
  SessionTotals reported_ ABSL_GUARDED_BY(totals_mutex_);  // by the client; layers from the slab
  uint64_t unobserved_full_blocks_ ABSL_GUARDED_BY(totals_mutex_) = 0;
};

}  // namespace spin::server

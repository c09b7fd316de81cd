// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/policy.h"
#include "spin/v1/session.pb.h"

namespace spin::server {

// What sessions start from: the flags, and every change that was asked for all sessions.
// Thread-safe.
class DefaultPolicy {
 public:
  struct Changed {
    Policy policy;
    uint64_t epoch;
  };
  struct Opened {
    Policy policy;
    std::string reason;  // for people
  };

  explicit DefaultPolicy(Policy policy) : policy_(std::move(policy)) {}

  // Of a session that opens with a checked request. What does not fit or go together is no reason
  // to refuse it, and logged.
  Opened For(const v1::OpenSessionRequest& request, int layers) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Applies a checked change. INVALID_FIELD if it does not go together with what is there.
  absl::StatusOr<Changed> Change(const v1::Policy& change) ABSL_LOCKS_EXCLUDED(mutex_);

  // Says what it is.
  void Describe(v1::ListSessionsResponse* response) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  Policy policy_ ABSL_GUARDED_BY(mutex_);
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace spin::server

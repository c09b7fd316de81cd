// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/control_client.h"
#include "client/cpp/slab_mapping.h"
#include "dataplane/session_view.h"
#include "dataplane/step_runner.h"
#include "kernels/device.h"
#include "kernels/policy.h"
#include "spin/v1/session.pb.h"

namespace spin::internal {

// A policy as this process uses it.
struct PolicyInForce {
  kernels::Policy kernels = {};
  bool enabled = true;
  uint64_t epoch = 0;
};

// One life of a session at one run of spind: the mapped slab and what hangs on it. Shared by the
// link and the step in progress; unmapped when both have let go, so that a dead spind's memory is
// not kept.
class OpenedSession {
 public:
  // Maps what spind offered. FAILED_PRECONDITION if it is not what it should be.
  static absl::StatusOr<std::shared_ptr<OpenedSession>> Map(std::shared_ptr<ControlClient> control,
                                                            const v1::OpenSessionResponse& opened);

  uint64_t id() const { return id_; }
  uint64_t nonce() const { return slab_.header.nonce; }
  ControlClient& control() { return *control_; }
  kernels::Device& device() { return *slab_.local->device; }
  dataplane::StepRunner& runner() { return runner_; }  // on the CPU only
  const dataplane::SessionView& view() const { return runner_.view(); }

  std::shared_ptr<const PolicyInForce> policy() const;
  void SetPolicy(const v1::Policy& policy, uint64_t epoch);

  // Set once the liveness stream is over: nothing here may be trusted any more.
  void MarkEnded() { ended_.store(true, std::memory_order_release); }
  bool ended() const { return ended_.load(std::memory_order_acquire); }

 private:
  OpenedSession(std::shared_ptr<ControlClient> control, const v1::OpenSessionResponse& opened,
                MappedSlab slab, kernels::DeviceMemory scratch);

  const std::shared_ptr<ControlClient> control_;
  const uint64_t id_;
  const MappedSlab slab_;
  const kernels::DeviceMemory scratch_;
  dataplane::StepRunner runner_;
  std::atomic<bool> ended_ = false;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const PolicyInForce> policy_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spin::internal

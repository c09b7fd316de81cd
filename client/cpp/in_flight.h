// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/opened_session.h"
#include "client/cpp/step_state.h"
#include "kernels/device.h"

namespace spin::internal {

// Keeps the mapping and the requests of steps until the device has run them: kernels may still
// write into pages of a request that the engine has dropped, and into the slab of a spind that is
// gone. Thread-safe: the decode loop adds, the link lets go.
class InFlight {
 public:
  static absl::StatusOr<std::unique_ptr<InFlight>> Create(kernels::Device* device);

  // Holds what the step names until the stream has passed this point.
  absl::Status Add(const StepState& step, kernels::Stream stream);

  // Lets go of what the device has passed; false if it holds more. May unmap, which may wait: not
  // for the decode loop.
  bool Release();

  // Whether a step that the device has not passed may write into the pages of the request.
  bool MayWrite(const RequestState& request);

 private:
  struct Held {
    kernels::Marker until;
    std::shared_ptr<OpenedSession> session;
    absl::flat_hash_set<std::shared_ptr<RequestState>> requests;
    absl::flat_hash_set<const RequestState*> observed;  // of those
  };

  InFlight(kernels::Device* device, kernels::Marker older, kernels::Marker newer)
      : device_(device), older_{older, nullptr, {}, {}}, newer_{newer, nullptr, {}, {}} {}
  void Empty(Held& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EmptyPassed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  kernels::Device* const device_;
  absl::Mutex mutex_;
  // Steps are gathered in newer_ while those of older_ run: two points are enough.
  Held older_ ABSL_GUARDED_BY(mutex_);
  Held newer_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<OpenedSession>> passed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spin::internal

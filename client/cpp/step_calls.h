// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <grpcpp/client_context.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/control_client.h"
#include "client/cpp/request_state.h"
#include "spin/v1/step.pb.h"

namespace spin::internal {

// Step calls whose answers nobody waits for: they are taken when they have come, in the order of
// the calls. The requests that a call names are held until its answer has come, so that none is
// closed, or forked, before spind has run its last step. Of the decode loop, but for what says
// otherwise; answers come in on gRPC's threads.
class StepCalls {
 public:
  // What the answer will be about.
  struct Row {
    std::weak_ptr<RequestState> request;  // empty: a row that was not observed anyway
    RequestBinding binding;
    int64_t next_position = 0;  // after the step
    int64_t blocks = 0;
  };
  struct Call {
    v1::StepRequest request;
    v1::StepResponse response;
    absl::Status status;
    std::vector<Row> rows;
    bool probe = false;  // asks for nothing but an answer

   private:
    friend class StepCalls;
    std::optional<grpc::ClientContext> context;
    // Under the lock:
    bool answered = false;
    std::vector<std::shared_ptr<RequestState>> held;
  };

  StepCalls() = default;
  ~StepCalls();  // cancels what is under way

  // The next call, to be filled in and sent; null if too many are under way.
  Call* Next();
  // Sends what Next gave.
  void Send(ControlClient& control, absl::Duration timeout);
  // Hands out answered calls, oldest first.
  void TakeAnswered(absl::FunctionRef<void(const Call&)> take);

  bool none_under_way() const { return sent_ == taken_; }

  // Whether the request, or any, is held. Thread-safe.
  bool Holds(const RequestState& request) const;
  bool HoldsAny() const;

 private:
  static constexpr size_t kMax = 16;  // more than the steps that a host is ahead of its device

  Call& At(uint64_t number) { return calls_[number % kMax]; }
  bool Answered(const Call& call) const {
    absl::MutexLock lock(&mutex_);
    return call.answered;
  }

  std::array<Call, kMax> calls_;
  uint64_t sent_ = 0;   // calls ever
  uint64_t taken_ = 0;  // of those
  mutable absl::Mutex mutex_;
};

}  // namespace spin::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/step_calls.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace spin::internal {

StepCalls::~StepCalls() {
  for (; taken_ < sent_; ++taken_) {
    Call& call = At(taken_);
    call.context->TryCancel();
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&call.answered));
  }
}

StepCalls::Call* StepCalls::Next() {
  if (sent_ - taken_ == kMax) return nullptr;
  Call& call = At(sent_);
  call.request.Clear();
  call.response.Clear();
  call.rows.clear();
  call.probe = false;
  return &call;
}

void StepCalls::Send(ControlClient& control, absl::Duration timeout) {
  Call& call = At(sent_++);
  {
    absl::MutexLock lock(&mutex_);
    call.answered = false;
    for (const Row& row : call.rows) {
      if (auto request = row.request.lock()) call.held.push_back(std::move(request));
    }
  }
  call.context.emplace();
  call.context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  control.stub().async()->Step(&*call.context, &call.request, &call.response,
                               [this, &call](const grpc::Status& status) {
                                 absl::MutexLock lock(&mutex_);
                                 call.status = FromGrpc(status);
                                 call.held.clear();
                                 call.answered = true;  // the last touch
                               });
}

bool StepCalls::Holds(const RequestState& request) const {
  absl::MutexLock lock(&mutex_);
  return std::any_of(calls_.begin(), calls_.end(), [&request](const Call& call) {
    return std::any_of(call.held.begin(), call.held.end(),
                       [&request](const auto& held) { return held.get() == &request; });
  });
}

bool StepCalls::HoldsAny() const {
  absl::MutexLock lock(&mutex_);
  return std::any_of(calls_.begin(), calls_.end(),
                     [](const Call& call) { return !call.held.empty(); });
}

void StepCalls::TakeAnswered(absl::FunctionRef<void(const Call&)> take) {
  for (; taken_ < sent_ && Answered(At(taken_)); ++taken_) take(At(taken_));
}

}  // namespace spin::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/attach_call.h"

#include <utility>

namespace spin::internal {

AttachCall::AttachCall(std::shared_ptr<OpenedSession> session, RecordingBox* recording,
                       std::function<void()> on_end)
    : session_(std::move(session)), recording_(recording), on_end_(std::move(on_end)) {
  outgoing_.set_session_id(session_->id());
  outgoing_.set_nonce(session_->nonce());
  session_->control().stub().async()->Attach(&context_, this);
  AddHold();  // writes are started from outside of reactions, until OnReadDone lets go
  StartRead(&incoming_);
  StartWrite(&outgoing_);
  StartCall();
}

AttachCall::~AttachCall() {
  context_.TryCancel();
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&done_));
}

absl::Status AttachCall::WaitUntilAttached(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto settled = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return attached_ || done_; };
  const bool in_time = mutex_.AwaitWithTimeout(absl::Condition(&settled), timeout);
  if (attached_) return absl::OkStatus();
  return in_time ? status_
                 : absl::DeadlineExceededError("spind did not accept the session in time");
}

void AttachCall::Send(v1::ClientReport report, bool closing) {
  outgoing_.Clear();
  outgoing_.set_session_id(session_->id());
  outgoing_.set_closing(closing);
  *outgoing_.mutable_report() = std::move(report);
  writing_ = true;
  StartWrite(&outgoing_);
}

void AttachCall::Report(v1::ClientReport report) {
  absl::MutexLock lock(&mutex_);
  if (!writing_ && !no_more_writes_) Send(std::move(report), false);
}

void AttachCall::Close(v1::ClientReport report, absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto writable = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !writing_ || no_more_writes_;
  };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&writable), timeout) || no_more_writes_) return;
  Send(std::move(report), true);
  mutex_.AwaitWithTimeout(absl::Condition(&done_), timeout);
}

void AttachCall::OnReadDone(bool ok) {
  if (ok) {
    session_->SetPolicy(incoming_.policy(), incoming_.policy_epoch());
    if (incoming_.has_recording()) recording_->SetOrder(incoming_.recording());
    {
      absl::MutexLock lock(&mutex_);
      attached_ = true;
    }
    StartRead(&incoming_);
    return;
  }
  session_->MarkEnded();
  {
    absl::MutexLock lock(&mutex_);
    no_more_writes_ = true;
  }
  RemoveHold();
}

void AttachCall::OnWriteDone(bool) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
}

void AttachCall::OnDone(const grpc::Status& status) {
  on_end_();
  absl::MutexLock lock(&mutex_);
  status_ = FromGrpc(status);
  done_ = true;  // the last touch: the destructor may go on
}

}  // namespace spin::internal

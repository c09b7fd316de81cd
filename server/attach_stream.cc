// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/attach_stream.h"

#include <utility>

#include "server/policy.h"
#include "server/refusal.h"
#include "server/validate.h"

namespace spin::server {

AttachStream::AttachStream(FindSession find, uint64_t nonce, SessionTable* sessions,
                           grpc::CallbackServerContext* context, RpcMetrics* metrics)
    : find_(std::move(find)),
      nonce_(nonce),
      sessions_(sessions),
      context_(context),
      metrics_(metrics) {
  StartRead(&message_);
}

void AttachStream::OnReadDone(bool ok) {
  if (!ok) return FinishOnce(absl::OkStatus());  // the client closed its side, or is gone
  const absl::Status status = TakeMessage();
  if (!status.ok()) return FinishOnce(status);
  message_.Clear();
  StartRead(&message_);
}

absl::Status AttachStream::TakeMessage() {
  const absl::Status known = CheckKnownFields(message_);
  if (!known.ok()) return known;
  if (session_ == nullptr) {
    const absl::Status attached = AttachTo(message_.session_id(), message_.nonce());
    if (!attached.ok()) return attached;
  } else if (message_.session_id() != session_->identity().id) {
    return RefuseField("session_id", "changed within the stream");
  }
  if (message_.has_report()) session_->TakeReport(message_.report());
  if (message_.closing()) sessions_->End(session_->identity().id, EndReason::kClosed);
  return absl::OkStatus();
}

absl::Status AttachStream::AttachTo(uint64_t id, uint64_t nonce) {
  auto session = find_(id);
  if (!session.ok()) return session.status();
  if (nonce != nonce_) {
    return Refuse(absl::StatusCode::kFailedPrecondition, v1::ERROR_REASON_NONCE_MISMATCH, "nonce",
                  "is not that of this slab: the client mapped other memory");
  }
  if (!(*session)->Attach(this)) {
    return Refuse(absl::StatusCode::kAlreadyExists, v1::ERROR_REASON_INVALID_FIELD, "session_id",
                  "is attached already, or has ended");
  }
  session_ = *std::move(session);
  OnPolicyChanged(session_->policy());
  return absl::OkStatus();
}

void AttachStream::OnPolicyChanged(std::shared_ptr<const PolicyInForce> policy) {
  absl::MutexLock lock(&mutex_);
  if (policy_ == nullptr || policy->epoch > policy_->epoch) policy_ = std::move(policy);
  if (HasNews()) Send();
}

void AttachStream::OnRecordingOrdered(const v1::RecordingOrder& order) {
  absl::MutexLock lock(&mutex_);
  order_ = order;
  order_sent_ = false;
  if (HasNews()) Send();
}

// Whether there is something to send, and it can be sent now. The policy comes first of all.
bool AttachStream::HasNews() const {
  return !writing_ && !finish_asked_ && policy_ != nullptr &&
         (policy_->epoch > sent_epoch_ || !order_sent_);
}

void AttachStream::Send() {
  *outgoing_.mutable_policy() = ToProto(policy_->policy);
  outgoing_.set_policy_epoch(policy_->epoch);
  sent_epoch_ = policy_->epoch;
  if (order_.recording_id() != 0) *outgoing_.mutable_recording() = order_;
  order_sent_ = true;
  writing_ = true;
  StartWrite(&outgoing_);
}

void AttachStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  if (finish_asked_) {
    if (!std::exchange(finished_, true)) Finish(finish_status_);
  } else if (ok && HasNews()) {
    Send();
  }
}

void AttachStream::OnEnded(const absl::Status& why) { FinishOnce(why); }

void AttachStream::OnCancel() { FinishOnce(absl::CancelledError("the stream was cancelled")); }

void AttachStream::FinishOnce(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (finish_asked_) return;
  finish_asked_ = true;
  finish_status_ = ToGrpc(status, context_);
  metrics_->CountStream(Method::kAttach, finish_status_.error_code());
  if (writing_) return;  // OnWriteDone finishes
  finished_ = true;
  Finish(finish_status_);
}

void AttachStream::OnDone() {
  if (session_ != nullptr) {
    session_->Detach(this);
    sessions_->End(session_->identity().id, EndReason::kDetached);
  }
  delete this;
}

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc_metrics.h"
#include "server/session_table.h"
#include "spin/v1/session.pb.h"

// The liveness stream of a session, server side. Owned by gRPC: deletes itself when the call is
// over, and ends the session then, whatever ended the call.
namespace spin::server {

class AttachStream final : public grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>,
                           public SessionListener {
 public:
  using FindSession = std::function<absl::StatusOr<std::shared_ptr<Session>>(uint64_t id)>;

  AttachStream(FindSession find, uint64_t nonce, SessionTable* sessions,
               grpc::CallbackServerContext* context, RpcMetrics* metrics);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void OnPolicyChanged(std::shared_ptr<const PolicyInForce> policy) override;
  void OnRecordingOrdered(const v1::RecordingOrder& order) override;
  void OnEnded(const absl::Status& why) override;

 private:
  absl::Status TakeMessage();
  absl::Status AttachTo(uint64_t id, uint64_t nonce);
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishOnce(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  const FindSession find_;
  const uint64_t nonce_;
  SessionTable* const sessions_;
  grpc::CallbackServerContext* const context_;
  RpcMetrics* const metrics_;
  v1::AttachRequest message_;
  std::shared_ptr<Session> session_;  // set by the first message

  absl::Mutex mutex_;
  v1::AttachResponse outgoing_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const PolicyInForce> policy_ ABSL_GUARDED_BY(mutex_);  // newest known
  uint64_t sent_epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  v1::RecordingOrder order_ ABSL_GUARDED_BY(mutex_);  // newest; id 0: none so far
  bool order_sent_ ABSL_GUARDED_BY(mutex_) = true;
  bool finish_asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status finish_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "server/default_policy.h"
#include "server/peer_watcher.h"
#include "server/policy.h"
#include "server/refused_sessions.h"
#include "server/rpc_metrics.h"
#include "server/session_table.h"
#include "server/slab.h"
#include "server/step_executor.h"
#include "server/watch_stream.h"
#include "server/work_queue.h"
#include "spin/v1/service.grpc.pb.h"

// The rpcs of spin.v1: each handler checks, asks the tables or enqueues, and answers. State lives
// elsewhere.
namespace spin::server {

// What the handlers work with; all of it outlives the service.
struct ServiceParts {
  Slab* slab;
  kernels::Device* device;
  SessionTable* sessions;
  PeerWatcher* peers;
  StepExecutor* executor;
  WorkQueue* step_queue;
  WorkQueue* control_queue;
  RpcMetrics* rpc_metrics;
  kernels::Dtype default_state;
  std::function<v1::ServerInfo()> server_info;
};

class SpinService final : public v1::SpinService::CallbackService {
 public:
  SpinService(const ServiceParts& parts, Policy default_policy);

  // From now on new work is refused and attached clients are told to keep all blocks.
  void Drain();

  grpc::ServerUnaryReactor* OpenSession(grpc::CallbackServerContext* context,
                                        const v1::OpenSessionRequest* request,
                                        v1::OpenSessionResponse* response) override;
  grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>* Attach(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext* context,
                                         const v1::CloseSessionRequest* request,
                                         v1::CloseSessionResponse* response) override;
  grpc::ServerUnaryReactor* GetSession(grpc::CallbackServerContext* context,
                                       const v1::GetSessionRequest* request,
                                       v1::GetSessionResponse* response) override;
  grpc::ServerUnaryReactor* ListSessions(grpc::CallbackServerContext* context,
                                         const v1::ListSessionsRequest* request,
                                         v1::ListSessionsResponse* response) override;
  grpc::ServerUnaryReactor* OpenRequests(grpc::CallbackServerContext* context,
                                         const v1::OpenRequestsRequest* request,
                                         v1::OpenRequestsResponse* response) override;
  grpc::ServerUnaryReactor* ExtendRequests(grpc::CallbackServerContext* context,
                                           const v1::ExtendRequestsRequest* request,
                                           v1::ExtendRequestsResponse* response) override;
  grpc::ServerUnaryReactor* CloseRequests(grpc::CallbackServerContext* context,
                                          const v1::CloseRequestsRequest* request,
                                          v1::CloseRequestsResponse* response) override;
  grpc::ServerUnaryReactor* Step(grpc::CallbackServerContext* context,
                                 const v1::StepRequest* request,
                                 v1::StepResponse* response) override;
  grpc::ServerUnaryReactor* CommitDrafts(grpc::CallbackServerContext* context,
                                         const v1::CommitDraftsRequest* request,
                                         v1::CommitDraftsResponse* response) override;
  grpc::ServerUnaryReactor* UpdatePolicy(grpc::CallbackServerContext* context,
                                         const v1::UpdatePolicyRequest* request,
                                         v1::UpdatePolicyResponse* response) override;
  grpc::ServerUnaryReactor* StartRecording(grpc::CallbackServerContext* context,
                                           const v1::StartRecordingRequest* request,
                                           v1::StartRecordingResponse* response) override;
  grpc::ServerUnaryReactor* StopRecording(grpc::CallbackServerContext* context,
                                          const v1::StopRecordingRequest* request,
                                          v1::StopRecordingResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchStatsResponse>* WatchStats(
      grpc::CallbackServerContext* context, const v1::WatchStatsRequest* request) override;

 private:
  class Call;

  absl::Status DoOpenSession(grpc::CallbackServerContext* context,
                             const v1::OpenSessionRequest& request,
                             v1::OpenSessionResponse* response);
  absl::Status DoUpdatePolicy(const v1::UpdatePolicyRequest& request,
                              v1::UpdatePolicyResponse* response);
  absl::Status CheckDevice(const std::string& device_uuid) const;

  // The session, if the caller owns it: same user, and the same process as far as pids can be seen.
  absl::StatusOr<std::shared_ptr<Session>> FindOwned(grpc::CallbackServerContext* context,
                                                     uint64_t id) const;
  absl::StatusOr<std::shared_ptr<Session>> FindForSteps(grpc::CallbackServerContext* context,
                                                        uint64_t id) const;

  // The session, if the caller may have its engine write files: the same user, or root.
  absl::StatusOr<std::shared_ptr<Session>> FindToRecord(grpc::CallbackServerContext* context,
                                                        uint64_t id) const;

  // Answers the call from the queue's thread; refuses it if the queue is full. Work whose caller
  // has given up is not begun.
  void Enqueue(WorkQueue* queue, Call call, absl::AnyInvocable<absl::Status()> work);
  // The same over a session that was looked up for the call, if the request passed its checks.
  void EnqueueFor(const absl::StatusOr<std::shared_ptr<Session>>& session, WorkQueue* queue,
                  Call call, absl::Status checked, absl::AnyInvocable<absl::Status(Session&)> work);

  const ServiceParts parts_;
  std::atomic<bool> draining_ = false;
  WatchStreams watch_streams_;
  DefaultPolicy default_policy_;
  RefusedSessions refused_sessions_;  // of the control queue's thread
  absl::Mutex for_all_;  // a change for all sessions passes by none that is being opened
};

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/service.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "server/attach_stream.h"
#include "server/codec.h"
#include "server/refusal.h"
#include "server/request_calls.h"
#include "server/validate.h"

namespace spin::server {

// A unary call in progress: answered exactly once, counted when it is.
class SpinService::Call {
 public:
  Call(Method method, grpc::CallbackServerContext* context, RpcMetrics* metrics)
      : method_(method),
        context_(context),
        metrics_(metrics),
        reactor_(context->DefaultReactor()),
        start_(absl::Now()) {}

  grpc::ServerUnaryReactor* reactor() const { return reactor_; }
  bool abandoned() const { return context_->IsCancelled(); }

  void Answer(const absl::Status& status) {
    const grpc::Status out = ToGrpc(status, context_);
    metrics_->CountUnary(method_, out.error_code(), absl::Now() - start_);
    reactor_->Finish(out);
  }

 private:
  Method method_;
  grpc::CallbackServerContext* context_;
  RpcMetrics* metrics_;
  grpc::ServerUnaryReactor* reactor_;
  absl::Time start_;
};

SpinService::SpinService(const ServiceParts& parts, Policy default_policy)
    : parts_(parts), default_policy_(std::move(default_policy)) {}

void SpinService::Drain() {
  draining_.store(true);
  watch_streams_.StopAll();
  parts_.sessions->EndAll();
}

void SpinService::Enqueue(WorkQueue* queue, Call call, absl::AnyInvocable<absl::Status()> work) {
  const bool queued = !draining_.load() && queue->TryPush([call, work = std::move(work)]() mutable {
    call.Answer(call.abandoned() ? absl::CancelledError("the caller has given up") : work());
  });
  if (queued) return;
  call.Answer(draining_.load()
                  ? Refuse(absl::StatusCode::kUnavailable, v1::ERROR_REASON_SHUTTING_DOWN, "",
                           "spind is stopping")
                  : Refuse(absl::StatusCode::kResourceExhausted, v1::ERROR_REASON_QUEUE_FULL, "",
                           "the queue is full; try again"));
}

void SpinService::EnqueueFor(const absl::StatusOr<std::shared_ptr<Session>>& session,
                             WorkQueue* queue, Call call, absl::Status checked,
                             absl::AnyInvocable<absl::Status(Session&)> work) {
  if (checked.ok()) checked = session.status();
  if (!checked.ok()) return call.Answer(checked);
  Enqueue(queue, call,
          [session = *session, work = std::move(work)]() mutable { return work(*session); });
}

absl::StatusOr<std::shared_ptr<Session>> SpinService::FindOwned(
    grpc::CallbackServerContext* context, uint64_t id) const {
  auto session = parts_.sessions->Find(id);
  if (!session.ok()) return session.status();
  const std::optional<Peer> caller = parts_.peers->Find(context->peer());
  const Peer& owner = (*session)->identity().peer;
  if (caller.has_value() && caller->uid == owner.uid && caller->pid == owner.pid) return session;
  return Refuse(absl::StatusCode::kPermissionDenied, v1::ERROR_REASON_NOT_OWNER, "session_id",
                "belongs to another process");
}

absl::StatusOr<std::shared_ptr<Session>> SpinService::FindForSteps(
    grpc::CallbackServerContext* context, uint64_t id) const {
  auto session = FindOwned(context, id);
  if (!session.ok()) return session.status();
  if ((*session)->identity().executor == v1::EXECUTOR_SIDECAR) return session;
  return Refuse(absl::StatusCode::kFailedPrecondition, v1::ERROR_REASON_WRONG_EXECUTOR,
                "session_id",
                "names a session with the inline executor, whose steps run in the client");
}

absl::StatusOr<std::shared_ptr<Session>> SpinService::FindToRecord(
    grpc::CallbackServerContext* context, uint64_t id) const {
  auto session = parts_.sessions->Find(id);
  if (!session.ok()) return session.status();
  const std::optional<Peer> caller = parts_.peers->Find(context->peer());
  const uid_t owner = (*session)->identity().peer.uid;
  if (caller.has_value() && (caller->uid == owner || caller->uid == 0)) return session;
  return Refuse(absl::StatusCode::kPermissionDenied, v1::ERROR_REASON_NOT_OWNER, "session_id",
                absl::StrCat("names a session of user ", owner,
                             ", whose engine would write the file; ask as that user or as root"));
}

absl::Status SpinService::CheckDevice(const std::string& device_uuid) const {
  if (device_uuid.empty() || device_uuid == parts_.device->uuid()) return absl::OkStatus();
  return Refuse(absl::StatusCode::kFailedPrecondition, v1::ERROR_REASON_DEVICE_MISMATCH,
                "device_uuid",
                absl::StrCat("the engine runs on ", device_uuid, ", this spind serves ",
                             parts_.device->uuid(), "; give both containers the same GPU"));
}

absl::Status SpinService::DoOpenSession(grpc::CallbackServerContext* context,
                                        const v1::OpenSessionRequest& request,
                                        v1::OpenSessionResponse* response) {
  absl::Status status = CheckKnownFields(request);
  if (status.ok()) status = CheckOpenSession(request);
  if (status.ok()) status = CheckDevice(request.device_uuid());
  if (!status.ok()) return status;
  const std::optional<Peer> peer = parts_.peers->Find(context->peer());
  if (!peer.has_value()) return absl::UnavailableError("the connection is gone");

  for (const auto& other : parts_.sessions->All()) other->Sweep();
  auto region = SessionRegion::Create(parts_.slab, ShapeOf(request, parts_.default_state));
  if (!region.ok()) return region.status();
  absl::MutexLock policies(&for_all_);
  auto [policy, reason] = default_policy_.For(request, (*region)->shape().geometry.layers);
  const bool sidecar = request.executor() == v1::EXECUTOR_SIDECAR;
  auto session = std::make_shared<Session>(
      SessionIdentity{.id = RandomId(),
                      .model_name = request.model_name(),
                      .client_name = request.client_name(),
                      .executor = sidecar ? v1::EXECUTOR_SIDECAR : v1::EXECUTOR_INLINE,
                      .zero_init = request.zero_init(),
                      .allow_recording = request.allow_recording(),
                      .peer = *peer,
                      .opened_at = absl::Now()},
      *region, policy, std::move(reason));
  status = parts_.sessions->Add(session);
  if (!status.ok()) return status;
  // If the connection ended before the table knew of the session, nobody else will end it.
  const std::optional<Peer> now = parts_.peers->Find(context->peer());
  if (!now.has_value() || now->connection != peer->connection) {
    parts_.sessions->End(session->identity().id, EndReason::kConnectionLost);
    return absl::UnavailableError("the connection is gone");
  }

  const auto in_force = session->policy();
  response->set_session_id(session->identity().id);
  *response->mutable_slab() = parts_.slab->handle();
  *response->mutable_geometry() = ToProto((*region)->shape());
  *response->mutable_layout() = ToProto((*region)->layout(), (*region)->shape());
  *response->mutable_policy() = ToProto(in_force->policy);
  response->set_policy_epoch(in_force->epoch);
  response->set_executor(session->identity().executor);
  spdlog::info("session {:016x} of {} ({}) opened by pid {}", session->identity().id,
               request.model_name(), request.client_name(), peer->pid);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* SpinService::OpenSession(grpc::CallbackServerContext* context,
                                                   const v1::OpenSessionRequest* request,
                                                   v1::OpenSessionResponse* response) {
  Call call(Method::kOpenSession, context, parts_.rpc_metrics);
  Enqueue(parts_.control_queue, call, [this, context, request, response] {
    absl::Status status = DoOpenSession(context, *request, response);
    if (!status.ok()) refused_sessions_.Tell(parts_.peers->Find(context->peer()), status);
    return status;
  });
  return call.reactor();
}

grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>* SpinService::Attach(
    grpc::CallbackServerContext* context) {
  return new AttachStream([this, context](uint64_t id) { return FindOwned(context, id); },
                          parts_.slab->nonce(), parts_.sessions, context, parts_.rpc_metrics);
}

grpc::ServerUnaryReactor* SpinService::CloseSession(grpc::CallbackServerContext* context,
                                                    const v1::CloseSessionRequest* request,
                                                    v1::CloseSessionResponse*) {
  Call call(Method::kCloseSession, context, parts_.rpc_metrics);
  absl::Status status = CheckKnownFields(*request);
  if (status.ok()) status = FindOwned(context, request->session_id()).status();
  if (status.ok()) parts_.sessions->End(request->session_id(), EndReason::kClosed);
  call.Answer(status);
  return call.reactor();
}

grpc::ServerUnaryReactor* SpinService::GetSession(grpc::CallbackServerContext* context,
                                                  const v1::GetSessionRequest* request,
                                                  v1::GetSessionResponse* response) {
  Call call(Method::kGetSession, context, parts_.rpc_metrics);
  absl::Status status = CheckKnownFields(*request);
  if (status.ok()) {
    const auto session = parts_.sessions->Find(request->session_id());
    status = session.status();
    if (session.ok()) *response->mutable_session() = (*session)->Info();
  }
  call.Answer(status);
  return call.reactor();
}

grpc::ServerUnaryReactor* SpinService::ListSessions(grpc::CallbackServerContext* context,
                                                    const v1::ListSessionsRequest* request,
                                                    v1::ListSessionsResponse* response) {
  Call call(Method::kListSessions, context, parts_.rpc_metrics);
  const absl::Status status = CheckKnownFields(*request);
  if (status.ok()) {
    for (const auto& session : parts_.sessions->All()) *response->add_sessions() = session->Info();
    *response->mutable_server() = parts_.server_info();
    default_policy_.Describe(response);
  }
  call.Answer(status);
  return call.reactor();
}

grpc::ServerUnaryReactor* SpinService::OpenRequests(grpc::CallbackServerContext* context,
                                                    const v1::OpenRequestsRequest* request,
                                                    v1::OpenRequestsResponse* response) {
  Call call(Method::kOpenRequests, context, parts_.rpc_metrics);
  absl::Status status = CheckKnownFields(*request);
  if (status.ok()) status = CheckOpenRequests(*request);
  // A fork copies state that steps write, so it takes its place among them; filling fresh state
  // must not.
  WorkQueue* queue = HasFork(*request) ? parts_.step_queue : parts_.control_queue;
  EnqueueFor(FindOwned(context, request->session_id()), queue, call, status,
             [this, call, request, response](Session& session) {
               for (const auto& other : parts_.sessions->All()) other->Sweep();
               return DoOpenRequests(
                   session, *request, [&call] { return call.abandoned(); }, response);
             });
  return call.reactor();
}

grpc::ServerUnaryReactor* SpinService::ExtendRequests(grpc::CallbackServerContext* context,
                                                      const v1::ExtendRequestsRequest* request,
                                                      v1::ExtendRequestsResponse* response) {
  Call call(Method::kExtendRequests, context, parts_.rpc_metrics);
  absl::Status status = CheckKnownFields(*request);
  if (status.ok()) status = CheckExtendRequests(*request);
  EnqueueFor(FindOwned(context, request->session_id()), parts_.control_queue, call, status,
             [this, request, response](Session& session) {
               for (const auto& other : parts_.sessions->All()) other->Sweep();
               return DoExtendRequests(session, *request, response);
             });
  return call.reactor();
}

grpc::ServerUnaryReactor* SpinService::CloseRequests(grpc::CallbackServerContext* context,
                                                     const v1::CloseRequestsRequest* request,
                                                     v1::CloseRequestsResponse* response) {
  Call call(Method::kCloseRequests, context, parts_.rpc_metrics);
  absl::Status status = CheckKnownFields(*request);
  if (status.ok()) status = CheckCloseRequests(*request);
  auto session = FindOwned(context, request->session_id());
  if (status.ok()) status = session.status();
  // Of a caller that has given up, it might come after what the caller did next.
  if (status.ok() && call.abandoned()) status = absl::CancelledError("the caller has given up");
  if (status.ok()) status = DoCloseRequests(**session, *request, response);
  call.Answer(status);
  return call.reactor();
}

grpc::ServerUnaryReactor* SpinService::Step(grpc::CallbackServerContext* context,
                                            const v1::StepRequest* request,
                                            v1::StepResponse* response) {
  Call call(Method::kStep, context, parts_.rpc_metrics);
  EnqueueFor(FindForSteps(context, request->session_id()), parts_.step_queue, call,
             CheckStep(*request), [this, call, request, response](Session& session) {
               return parts_.executor->Step(session, *request, response,
                                            [&call] { return call.abandoned(); });
             });
  return call.reactor();
}

grpc::ServerUnaryReactor* SpinService::CommitDrafts(grpc::CallbackServerContext* context,
                                                    const v1::CommitDraftsRequest* request,
                                                    v1::CommitDraftsResponse* response) {
  Call call(Method::kCommitDrafts, context, parts_.rpc_metrics);
  EnqueueFor(FindForSteps(context, request->session_id()), parts_.step_queue, call,
             CheckCommitDrafts(*request), [this, request, response](Session& session) {
               return parts_.executor->CommitDrafts(session, *request, response);
             });
  return call.reactor();
}

absl::Status SpinService::DoUpdatePolicy(const v1::UpdatePolicyRequest& request,
                                         v1::UpdatePolicyResponse* response) {
  absl::Status status = CheckKnownFields(request);
  if (!status.ok()) return status;
  if (request.session_id() != 0) {
    const auto session = parts_.sessions->Find(request.session_id());
    if (!session.ok()) return session.status();
    status = CheckPolicy(request.policy(), (*session)->layers(), "policy.");
    if (status.ok()) status = RefuseConflict((*session)->ConflictOf(request.policy()), "policy.");
    if (!status.ok()) return status;
    const auto in_force = (*session)->UpdatePolicy(request.policy());
    *response->mutable_policy() = ToProto(in_force->policy);
    response->set_policy_epoch(in_force->epoch);
    response->set_sessions_changed(1);
    return absl::OkStatus();
  }
  status = CheckPolicy(request.policy(), 0, "policy.");
  absl::MutexLock policies(&for_all_);
  const auto sessions = parts_.sessions->All();
  for (const auto& session : sessions) {
    if (status.ok()) status = RefuseConflict(session->ConflictOf(request.policy()), "policy.");
  }
  if (!status.ok()) return status;
  const auto changed = default_policy_.Change(request.policy());
  if (!changed.ok()) return changed.status();
  *response->mutable_policy() = ToProto(changed->policy);
  response->set_policy_epoch(changed->epoch);
  const int values = request.policy().layer_sparsity_size();
  uint32_t means = 0;
  for (const auto& session : sessions) {
    session->UpdatePolicy(request.policy());
    means += values != 0 && values != session->layers();
  }
  response->set_sessions_changed(static_cast<uint32_t>(sessions.size()));
  response->set_sessions_with_mean(means);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* SpinService::UpdatePolicy(grpc::CallbackServerContext* context,
                                                    const v1::UpdatePolicyRequest* request,
                                                    v1::UpdatePolicyResponse* response) {
  Call call(Method::kUpdatePolicy, context, parts_.rpc_metrics);
  const absl::Status status = DoUpdatePolicy(*request, response);
  if (status.ok()) {
    spdlog::info("{}: policy changed by a call: {}",
                 request->session_id() == 0
                     ? std::string("all sessions, and those to come")
                     : absl::StrFormat("session %016x", request->session_id()),
                 request->policy().ShortDebugString());
  }
  call.Answer(status);
  return call.reactor();
}

grpc::ServerUnaryReactor* SpinService::StartRecording(grpc::CallbackServerContext* context,
                                                      const v1::StartRecordingRequest* request,
                                                      v1::StartRecordingResponse* response) {
  Call call(Method::kStartRecording, context, parts_.rpc_metrics);
  absl::Status status = CheckKnownFields(*request);
  auto session = FindToRecord(context, request->session_id());
  if (status.ok()) status = session.status();
  if (status.ok()) status = CheckRecordingOptions(request->options());
  if (status.ok()) {
    const auto id = (*session)->StartRecording(request->options());
    status = id.status();
    if (id.ok()) {
      response->set_recording_id(*id);
      spdlog::info("session {:016x}: recording asked for: {}", request->session_id(),
                   request->options().ShortDebugString());
    }
  }
  call.Answer(status);
  return call.reactor();
}

grpc::ServerUnaryReactor* SpinService::StopRecording(grpc::CallbackServerContext* context,
                                                     const v1::StopRecordingRequest* request,
                                                     v1::StopRecordingResponse* response) {
  Call call(Method::kStopRecording, context, parts_.rpc_metrics);
  absl::Status status = CheckKnownFields(*request);
  auto session = FindToRecord(context, request->session_id());
  if (status.ok()) status = session.status();
  if (status.ok()) {
    auto stopped = (*session)->StopRecording(request->recording_id());
    status = stopped.status();
    if (stopped.ok()) *response->mutable_recording() = *std::move(stopped);
  }
  call.Answer(status);
  return call.reactor();
}

grpc::ServerWriteReactor<v1::WatchStatsResponse>* SpinService::WatchStats(
    grpc::CallbackServerContext* context, const v1::WatchStatsRequest* request) {
  absl::Status status = CheckKnownFields(*request);
  if (status.ok()) status = CheckWatchStats(*request);
  if (status.ok() && request->session_id() != 0) {
    status = parts_.sessions->Find(request->session_id()).status();
  }
  return new WatchStream(*request, status, parts_.sessions, &watch_streams_, parts_.server_info,
                         context, parts_.rpc_metrics);
}

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/control_client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "absl/time/clock.h"

namespace spin::internal {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;  // as in proto/spin/v1/service.proto

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

template <typename Method, typename Request, typename Response>
absl::Status CallStub(v1::SpinService::Stub& stub, Method method, const Request& request,
                      absl::Duration timeout, Response* response) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  return FromGrpc((stub.*method)(&context, request, response));
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  // Both enumerate the canonical codes with the same numbers.
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

ControlClient::ControlClient(const std::string& socket)
    : stub_(v1::SpinService::NewStub(ChannelTo(socket))) {}

absl::Status ControlClient::OpenSession(const v1::OpenSessionRequest& request,
                                        absl::Duration timeout, v1::OpenSessionResponse* response) {
  return CallStub(*stub_, &v1::SpinService::Stub::OpenSession, request, timeout, response);
}

absl::Status ControlClient::CloseSession(const v1::CloseSessionRequest& request,
                                         absl::Duration timeout) {
  v1::CloseSessionResponse response;
  return CallStub(*stub_, &v1::SpinService::Stub::CloseSession, request, timeout, &response);
}

absl::Status ControlClient::OpenRequests(const v1::OpenRequestsRequest& request,
                                         absl::Duration timeout,
                                         v1::OpenRequestsResponse* response) {
  return CallStub(*stub_, &v1::SpinService::Stub::OpenRequests, request, timeout, response);
}

absl::Status ControlClient::ExtendRequests(const v1::ExtendRequestsRequest& request,
                                           absl::Duration timeout,
                                           v1::ExtendRequestsResponse* response) {
  return CallStub(*stub_, &v1::SpinService::Stub::ExtendRequests, request, timeout, response);
}

absl::Status ControlClient::CloseRequests(const v1::CloseRequestsRequest& request,
                                          absl::Duration timeout) {
  v1::CloseRequestsResponse response;
  return CallStub(*stub_, &v1::SpinService::Stub::CloseRequests, request, timeout, &response);
}

absl::Status ControlClient::Step(const v1::StepRequest& request, absl::Duration timeout,
                                 v1::StepResponse* response) {
  return CallStub(*stub_, &v1::SpinService::Stub::Step, request, timeout, response);
}

}  // namespace spin::internal

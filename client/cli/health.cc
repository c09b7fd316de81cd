// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/health.h"

#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/generic/generic_stub.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace spin::cli {
namespace {

// Debian's gRPC ships no health.proto. Its two messages have one field each, number 1, a string and
// an enum, and so the wire form of these wrappers.
using HealthCheckRequest = google::protobuf::StringValue;
using HealthCheckResponse = google::protobuf::Int32Value;
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr int kServing = 1;

}  // namespace

absl::Status CheckHealth(const Connection& connection) {
  grpc::ClientContext context;
  Connection::SetDeadline(&context);
  const HealthCheckRequest whole_server;
  HealthCheckResponse response;
  grpc::Status status;
  absl::Notification done;
  grpc::TemplatedGenericStub<HealthCheckRequest, HealthCheckResponse> stub(connection.channel());
  stub.UnaryCall(&context, kCheck, grpc::StubOptions(), &whole_server, &response,
                 [&](grpc::Status result) {
                   status = std::move(result);
                   done.Notify();
                 });
  done.WaitForNotification();  // the deadline bounds it
  if (!status.ok()) return connection.Explain(status, context);
  if (response.value() == kServing) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("spind answers that it does not serve (health status ", response.value(), ")"));
}

}  // namespace spin::cli

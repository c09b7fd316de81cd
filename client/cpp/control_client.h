// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "spin/v1/service.grpc.pb.h"

namespace spin::internal {

// The absl form of a gRPC status; spind's own messages already name field and cure.
absl::Status FromGrpc(const grpc::Status& status);

// The control plane over one channel. Every call is bounded. Thread-safe.
class ControlClient {
 public:
  // A fresh channel to the socket: no back-off is inherited from earlier ones.
  explicit ControlClient(const std::string& socket);

  absl::Status OpenSession(const v1::OpenSessionRequest& request, absl::Duration timeout,
                           v1::OpenSessionResponse* response);
  absl::Status CloseSession(const v1::CloseSessionRequest& request, absl::Duration timeout);
  absl::Status OpenRequests(const v1::OpenRequestsRequest& request, absl::Duration timeout,
                            v1::OpenRequestsResponse* response);
  absl::Status ExtendRequests(const v1::ExtendRequestsRequest& request, absl::Duration timeout,
                              v1::ExtendRequestsResponse* response);
  absl::Status CloseRequests(const v1::CloseRequestsRequest& request, absl::Duration timeout);
  absl::Status Step(const v1::StepRequest& request, absl::Duration timeout,
                    v1::StepResponse* response);

  v1::SpinService::Stub& stub() { return *stub_; }

 private:
  std::unique_ptr<v1::SpinService::Stub> stub_;
};

}  // namespace spin::internal

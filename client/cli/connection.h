// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "spin/v1/service.grpc.pb.h"

// A connection of spinctl to a running spind, and its refusals in plain words.
namespace spin::cli {

class Connection {
 public:
  // Connects with the first call. `socket` is a path.
  explicit Connection(std::string socket);

  const std::string& socket() const { return socket_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  v1::SpinService::Stub& stub() const { return *stub_; }

  // A unary call that takes at most `kCallTimeout`; errors as Explain has them.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::SpinService::Stub::*method)(grpc::ClientContext*,
                                                                              const Request&,
                                                                              Response*),
                                const Request& request) const {
    grpc::ClientContext context;
    SetDeadline(&context);
    Response response;
    const grpc::Status status = (*stub_.*method)(&context, request, &response);
    if (!status.ok()) return Explain(status, context);
    return response;
  }

  // One sentence for a call that failed: from the ErrorDetail in the trailing metadata if there is
  // one, and if spind did not answer from what the socket looks like. The code is the call's,
  // except that everything that means "no spind there" is UNAVAILABLE.
  absl::Status Explain(const grpc::Status& status, const grpc::ClientContext& context) const;

  static void SetDeadline(grpc::ClientContext* context);
  static constexpr absl::Duration kCallTimeout = absl::Seconds(5);

 private:
  absl::Status ExplainUnavailable(const grpc::Status& status) const;

  std::string socket_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::SpinService::Stub> stub_;
};

}  // namespace spin::cli

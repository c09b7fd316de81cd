// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/watch.h"

#include <memory>

namespace spin::cli {

absl::StatusOr<v1::WatchStatsResponse> FetchStats(const Connection& connection,
                                                  uint64_t session_id) {
  grpc::ClientContext context;
  Connection::SetDeadline(&context);
  v1::WatchStatsRequest request;
  request.set_session_id(session_id);
  const auto stream = connection.stub().WatchStats(&context, request);
  v1::WatchStatsResponse response;
  const bool received = stream->Read(&response);
  if (received) context.TryCancel();  // one is enough
  const grpc::Status status = stream->Finish();
  if (!received) return connection.Explain(status, context);
  return response;
}

}  // namespace spin::cli

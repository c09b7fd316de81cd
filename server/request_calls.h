// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/session.h"
#include "spin/v1/request.pb.h"

// The batched calls about requests, item by item: one refusal never touches the other items.
namespace spin::server {

// Whether any item copies a parent's state.
bool HasFork(const v1::OpenRequestsRequest& request);

// If the call is abandoned meanwhile, nobody would close what it has opened: nothing is left of it.
absl::Status DoOpenRequests(Session& session, const v1::OpenRequestsRequest& request,
                            absl::FunctionRef<bool()> abandoned,
                            v1::OpenRequestsResponse* response);
absl::Status DoExtendRequests(Session& session, const v1::ExtendRequestsRequest& request,
                              v1::ExtendRequestsResponse* response);
absl::Status DoCloseRequests(Session& session, const v1::CloseRequestsRequest& request,
                             v1::CloseRequestsResponse* response);

}  // namespace spin::server

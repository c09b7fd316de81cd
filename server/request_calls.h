// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"
#include "server/session.h"
#include "spin/v1/request.pb.h"

// The batched calls about requests, item by item: one refusal never touches the other items.
namespace spin::server {

// Whether any item copies a parent's state.
bool HasFork(const v1::OpenRequestsRequest& request);

absl::Status DoOpenRequests(Session& session, const v1::OpenRequestsRequest& request,
                            v1::OpenRequestsResponse* response);
absl::Status DoExtendRequests(Session& session, const v1::ExtendRequestsRequest& request,
                              v1::ExtendRequestsResponse* response);
absl::Status DoCloseRequests(Session& session, const v1::CloseRequestsRequest& request,
                             v1::CloseRequestsResponse* response);

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "dataplane/layout.h"
#include "kernels/geometry.h"
#include "spin/v1/recording.pb.h"
#include "spin/v1/request.pb.h"
#include "spin/v1/session.pb.h"
#include "spin/v1/stats.pb.h"
#include "spin/v1/step.pb.h"

// Checks what came in, before anything is touched. Every refusal names the field and the range; the
// limits are those the contract documents. Whether something named exists is for the tables to say.
namespace spin::server {

inline constexpr int kMaxSessions = 64;
inline constexpr int kMaxRequests = 512;
inline constexpr int kMaxItems = 512;  // of a batched call
inline constexpr int kMaxKeyBytes = 256;
inline constexpr int kMaxNameBytes = 128;
inline constexpr int kMaxMessageBytes = 4 << 20;

// Refuses a message that holds a field this server does not know, at any depth: to ignore it could
// change results silently.
absl::Status CheckKnownFields(const google::protobuf::Message& message);

absl::Status CheckOpenSession(const v1::OpenSessionRequest& request);
absl::Status CheckOpenRequests(const v1::OpenRequestsRequest& request);
absl::Status CheckExtendRequests(const v1::ExtendRequestsRequest& request);
absl::Status CheckCloseRequests(const v1::CloseRequestsRequest& request);
absl::Status CheckStep(const v1::StepRequest& request);
absl::Status CheckCommitDrafts(const v1::CommitDraftsRequest& request);
absl::Status CheckWatchStats(const v1::WatchStatsRequest& request);
absl::Status CheckRecordingOptions(const v1::RecordingOptions& options);

// One item or row of a batched call. `path` is its place, such as "items[3]".
absl::Status CheckOpenItem(const v1::OpenRequestItem& item, int64_t max_slots,
                           const std::string& path);

// The shape a checked request asks for; an unspecified state type becomes `default_state`.
dataplane::SessionShape ShapeOf(const v1::OpenSessionRequest& request,
                                kernels::Dtype default_state);

}  // namespace spin::server

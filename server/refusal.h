// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "spin/v1/error.pb.h"

// How a refusal travels: as an absl::Status with a typed ErrorDetail inside spind, as a gRPC status
// with the detail in trailing metadata on the wire. The only place where the two meet.
namespace spin::server {

// Trailing metadata entry that holds a serialised spin.v1.ErrorDetail.
inline constexpr char kErrorMetadata[] = "spin-error-bin";

// A status that says which field is wrong (or "") and what to do about it.
absl::Status Refuse(absl::StatusCode code, v1::ErrorReason reason, absl::string_view field,
                    absl::string_view message);

// INVALID_ARGUMENT, the most common refusal.
absl::Status RefuseField(absl::string_view field, absl::string_view message);

// The detail of a refusal; a status from elsewhere counts as internal.
v1::ErrorDetail DetailOf(const absl::Status& status);

// The gRPC form. Adds the trailing metadata to `context`; call before the rpc finishes.
grpc::Status ToGrpc(const absl::Status& status, grpc::CallbackServerContext* context);

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/refusal.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace spin::server {
namespace {

constexpr absl::string_view kPayload = "spin.v1.ErrorDetail";

}  // namespace

absl::Status Refuse(absl::StatusCode code, v1::ErrorReason reason, absl::string_view field,
                    absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_reason(reason);
  detail.set_field(std::string(field));
  detail.set_message(std::string(message));
  absl::Status status(code,
                      field.empty() ? std::string(message) : absl::StrCat(field, ": ", message));
  status.SetPayload(kPayload, absl::Cord(detail.SerializeAsString()));
  return status;
}

absl::Status RefuseField(absl::string_view field, absl::string_view message) {
  return Refuse(absl::StatusCode::kInvalidArgument, v1::ERROR_REASON_INVALID_FIELD, field, message);
}

v1::ErrorDetail DetailOf(const absl::Status& status) {
  v1::ErrorDetail detail;
  const auto payload = status.GetPayload(kPayload);
  if (payload.has_value() && detail.ParseFromString(std::string(*payload))) return detail;
  detail.set_reason(v1::ERROR_REASON_INTERNAL);
  detail.set_message(std::string(status.message()));
  return detail;
}

grpc::Status ToGrpc(const absl::Status& status, grpc::CallbackServerContext* context) {
  if (status.ok()) return grpc::Status::OK;
  context->AddTrailingMetadata(kErrorMetadata, DetailOf(status).SerializeAsString());
  // Both enumerate the canonical codes with the same numbers.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

}  // namespace spin::server

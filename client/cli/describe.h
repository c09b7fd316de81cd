// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <google/protobuf/repeated_ptr_field.h>
#include <google/protobuf/timestamp.pb.h>

#include <string>

#include "absl/time/time.h"
#include "client/cli/json.h"
#include "spin/v1/session.pb.h"
#include "spin/v1/stats.pb.h"

// The messages of the contract in words and as JSON. JSON keys are the names of the fields; ids and
// epochs are hexadecimal strings, since many JSON readers round 64-bit numbers.
namespace spin::cli {

std::string ExecutorName(v1::Executor executor);      // "inline"
std::string DtypeName(v1::Dtype dtype);               // "f32"
std::string FallbackName(v1::FallbackReason reason);  // "no_sidecar", as in the metrics

// "40.0 %", or "30.0 to 60.0 %" where layers differ.
std::string SparsityText(const v1::Policy& policy);

Json PolicyJson(const v1::Policy& policy);
Json SessionJson(const v1::SessionInfo& session);
Json ServerJson(const v1::ServerInfo& server);
Json FallbacksJson(const google::protobuf::RepeatedPtrField<v1::FallbackCount>& counts);

std::string TimeJson(const google::protobuf::Timestamp& time);  // RFC 3339, UTC
absl::Time ToTime(const google::protobuf::Timestamp& time);

}  // namespace spin::cli

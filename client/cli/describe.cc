// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/describe.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/cli/ids.h"
#include "client/cli/terminal/numbers.h"
#include "policy_file/policy_file.h"

namespace spin::cli {
namespace {

// "EXECUTOR_INLINE" -> "inline". Numbers of a newer contract stay numbers.
std::string Shorten(const std::string& name, absl::string_view prefix, int value) {
  if (name.empty()) return absl::StrCat(value);
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

Json GeometryJson(const v1::Geometry& geometry) {
  return {{"layers", geometry.layers()},
          {"block_slots", geometry.block_slots()},
          {"topk", geometry.topk()},
          {"tokens_per_slot", geometry.tokens_per_slot()},
          {"max_slots", geometry.max_slots()},
          {"max_requests", geometry.max_requests()},
          {"max_next_n", geometry.max_next_n()},
          {"state_dtype", DtypeName(geometry.state_dtype())},
          {"score_dtype", DtypeName(geometry.score_dtype())}};
}

}  // namespace

std::string ExecutorName(v1::Executor executor) {
  return Shorten(v1::Executor_Name(executor), "EXECUTOR_", executor);
}

std::string DtypeName(v1::Dtype dtype) { return Shorten(v1::Dtype_Name(dtype), "DTYPE_", dtype); }

std::string FallbackName(v1::FallbackReason reason) {
  return Shorten(v1::FallbackReason_Name(reason), "FALLBACK_REASON_", reason);
}

std::string SparsityText(const v1::Policy& policy) {
  const auto& layers = policy.layer_sparsity();
  if (layers.empty()) return FormatPercent(policy.sparsity(), 1);
  const auto [least, most] = std::minmax_element(layers.begin(), layers.end());
  return absl::StrFormat("%.1f to %.1f %%", 100 * *least, 100 * *most);
}

Json PolicyJson(const v1::Policy& policy) {
  Json layers = Json::array();
  for (const double share : policy.layer_sparsity()) layers.push_back(share);
  return {{"sparsity", policy.sparsity()},
          {"layer_sparsity", layers},
          {"exploration", policy.exploration()},
          {"decay", policy.decay()},
          {"seed", policy.seed()},
          {"audit_every", policy.audit_every()},
          {"pin_first_block", policy.pin_first_block()},
          {"enabled", policy.enabled()},
          {"budget_mode", policy_file::ModeName(policy.budget_mode())},
          {"target_miss", policy.target_miss()},
          {"min_sparsity", policy.min_sparsity()},
          {"max_sparsity", policy.max_sparsity()}};
}

Json SessionJson(const v1::SessionInfo& session) {
  return {{"session_id", FormatId(session.session_id())},
          {"model_name", session.model_name()},
          {"client_name", session.client_name()},
          {"geometry", GeometryJson(session.geometry())},
          {"executor", ExecutorName(session.executor())},
          {"policy", PolicyJson(session.policy())},
          {"policy_epoch", session.policy_epoch()},
          {"attached", session.attached()},
          {"open_requests", session.open_requests()},
          {"state_bytes", session.state_bytes()},
          {"opened_at", TimeJson(session.opened_at())},
          {"peer_process_id", session.peer_process_id()},
          {"peer_user_id", session.peer_user_id()},
          {"policy_reason", session.policy_reason()}};
}

Json ServerJson(const v1::ServerInfo& server) {
  return {{"version", server.version()},
          {"epoch", FormatId(server.epoch())},
          {"device_uuid", server.device_uuid()},
          {"slab_bytes", server.slab_bytes()},
          {"slab_used_bytes", server.slab_used_bytes()},
          {"started_at", TimeJson(server.started_at())},
          {"admin_address", server.admin_address()},
          {"process_id", server.process_id()}};
}

Json FallbacksJson(const google::protobuf::RepeatedPtrField<v1::FallbackCount>& counts) {
  Json object = Json::object();
  for (int value = v1::FallbackReason_MIN; value <= v1::FallbackReason_MAX; ++value) {
    const auto reason = static_cast<v1::FallbackReason>(value);
    if (reason != v1::FALLBACK_REASON_UNSPECIFIED) object[FallbackName(reason)] = uint64_t{0};
  }
  for (const v1::FallbackCount& count : counts) object[FallbackName(count.reason())] = count.rows();
  return object;
}

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

std::string TimeJson(const google::protobuf::Timestamp& time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", ToTime(time), absl::UTCTimeZone());
}

}  // namespace spin::cli

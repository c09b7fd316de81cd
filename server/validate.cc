// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/validate.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/policy.h"
#include "server/refusal.h"

namespace spin::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMaxPathBytes = 1024;

absl::Status CheckRange(absl::string_view field, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return RefuseField(field, absl::StrCat(value, " is not in ", low, " to ", high));
}

// Names end up in metric labels, logs and terminals.
absl::Status CheckName(absl::string_view field, absl::string_view name, size_t low) {
  if (name.size() < low || name.size() > kMaxNameBytes) {
    return RefuseField(
        field, absl::StrCat("has ", name.size(), " bytes, not ", low, " to ", kMaxNameBytes));
  }
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isprint(static_cast<unsigned char>(c)) && c != '"' && c != '\\';
  });
  if (printable) return absl::OkStatus();
  return RefuseField(field, "has characters other than printable ASCII without quotes");
}

absl::Status CheckGeometry(const v1::Geometry& g) {
  absl::Status status;
  status.Update(CheckRange("geometry.layers", g.layers(), 1, kernels::kMaxLayers));
  if (status.ok() && !kernels::IsBlockSize(static_cast<int32_t>(g.block_slots()))) {
    status = RefuseField("geometry.block_slots",
                         absl::StrCat(g.block_slots(), " is not 16, 32, 64 or 128"));
  }
  status.Update(CheckRange("geometry.topk", g.topk(), 1, kernels::kMaxTopk));
  status.Update(
      CheckRange("geometry.tokens_per_slot", g.tokens_per_slot(), 1, kernels::kMaxTokensPerSlot));
  status.Update(CheckRange("geometry.max_slots", g.max_slots(), 1, kernels::kMaxSlots));
  status.Update(CheckRange("geometry.max_requests", g.max_requests(), 1, kMaxRequests));
  status.Update(CheckRange("geometry.max_next_n", g.max_next_n(), 1, kernels::kMaxNextN));
  if (status.ok() && !v1::Dtype_IsValid(g.state_dtype())) {
    status = RefuseField("geometry.state_dtype", "is not a known type");
  }
  if (status.ok() && !v1::Dtype_IsValid(g.score_dtype())) {
    status = RefuseField("geometry.score_dtype", "is not a known type");
  }
  return status;
}

bool HasNoUnknownField(const Message& message) {
  return message.GetReflection()->GetUnknownFields(message).empty();
}

absl::Status CheckCount(absl::string_view field, int count) {
  if (count >= 1 && count <= kMaxItems) return absl::OkStatus();
  return RefuseField(field, absl::StrCat("has ", count, " entries, not 1 to ", kMaxItems));
}

kernels::Dtype DtypeOr(v1::Dtype dtype, kernels::Dtype fallback) {
  if (dtype == v1::DTYPE_F32) return kernels::Dtype::kF32;
  if (dtype == v1::DTYPE_BF16) return kernels::Dtype::kBF16;
  return fallback;
}

}  // namespace

absl::Status CheckKnownFields(const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const auto& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty()) {
    return Refuse(absl::StatusCode::kInvalidArgument, v1::ERROR_REASON_UNKNOWN_FIELD,
                  absl::StrCat(message.GetDescriptor()->name(), ".", unknown.field(0).number()),
                  "is a field this spind does not know; use a client of the same version");
  }
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const absl::Status status =
          CheckKnownFields(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                : reflection.GetMessage(message, field));
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOpenSession(const v1::OpenSessionRequest& request) {
  absl::Status status = CheckName("model_name", request.model_name(), 1);
  status.Update(CheckName("client_name", request.client_name(), 0));
  status.Update(CheckName("device_uuid", request.device_uuid(), 0));
  status.Update(CheckGeometry(request.geometry()));
  if (status.ok() && !v1::Executor_IsValid(request.executor())) {
    status = RefuseField("executor", "is not a known executor");
  }
  if (status.ok()) {
    status =
        CheckPolicy(request.policy(), static_cast<int>(request.geometry().layers()), "policy.");
  }
  return status;
}

absl::Status CheckOpenRequests(const v1::OpenRequestsRequest& request) {
  return CheckCount("items", request.items_size());
}

absl::Status CheckExtendRequests(const v1::ExtendRequestsRequest& request) {
  return CheckCount("items", request.items_size());
}

absl::Status CheckCloseRequests(const v1::CloseRequestsRequest& request) {
  return CheckCount("handles and keys", request.handles_size() + request.keys_size());
}

absl::Status CheckStep(const v1::StepRequest& request) {
  // The same as CheckKnownFields, written out: walking all fields is slow for the one call of the
  // decode loop.
  const bool known =
      HasNoUnknownField(request) &&
      std::all_of(request.rows().begin(), request.rows().end(), [](const v1::StepRow& row) {
        return HasNoUnknownField(row) && HasNoUnknownField(row.handle());
      });
  if (!known) return CheckKnownFields(request);
  return CheckCount("rows", request.rows_size());
}

absl::Status CheckCommitDrafts(const v1::CommitDraftsRequest& request) {
  const absl::Status known = CheckKnownFields(request);
  if (!known.ok()) return known;
  return CheckCount("rows", request.rows_size());
}

absl::Status CheckWatchStats(const v1::WatchStatsRequest& request) {
  if (!request.has_interval()) return absl::OkStatus();
  const double seconds = static_cast<double>(request.interval().seconds()) +
                         static_cast<double>(request.interval().nanos()) * 1e-9;
  if (seconds >= 0.1 && seconds <= 3600) return absl::OkStatus();
  return RefuseField("interval", absl::StrCat(seconds, " s is not in 0.1 s to 1 h"));
}

absl::Status CheckRecordingOptions(const v1::RecordingOptions& options) {
  const std::string& path = options.path();
  if (path.size() > kMaxPathBytes || !absl::StartsWith(path, "/") ||
      !absl::EndsWith(path, ".safetensors") || path.find('\0') != std::string::npos) {
    return RefuseField("options.path",
                       absl::StrCat("must be absolute, end in .safetensors and have at most ",
                                    kMaxPathBytes, " bytes"));
  }
  absl::Status status = CheckRange("options.max_steps", options.max_steps(), 2, 65536);
  status.Update(CheckRange("options.max_bytes", options.max_bytes(), 1, uint64_t{1} << 40));
  status.Update(CheckRange("options.sample_every", options.sample_every(), 0, 1000000));
  status.Update(CheckRange("options.max_requests", options.max_requests(), 0, 64));
  if (!status.ok()) return status;
  const double seconds = static_cast<double>(options.max_time().seconds()) +
                         static_cast<double>(options.max_time().nanos()) * 1e-9;
  if (seconds >= 1 && seconds <= 3600) return absl::OkStatus();
  return RefuseField("options.max_time", absl::StrCat(seconds, " s is not in 1 s to 1 h"));
}

absl::Status CheckOpenItem(const v1::OpenRequestItem& item, int64_t max_slots,
                           const std::string& path) {
  if (item.key().empty() || item.key().size() > kMaxKeyBytes) {
    return RefuseField(path + ".key",
                       absl::StrCat("has ", item.key().size(), " bytes, not 1 to ", kMaxKeyBytes));
  }
  return CheckRange(path + ".slots", item.slots(), 0, static_cast<uint64_t>(max_slots));
}

dataplane::SessionShape ShapeOf(const v1::OpenSessionRequest& request,
                                kernels::Dtype default_state) {
  const v1::Geometry& g = request.geometry();
  const auto max_next_n = static_cast<int32_t>(g.max_next_n());
  return {.geometry = {.layers = static_cast<int32_t>(g.layers()),
                       .block = static_cast<int32_t>(g.block_slots()),
                       .topk = static_cast<int32_t>(g.topk()),
                       .tokens_per_slot = static_cast<int32_t>(g.tokens_per_slot()),
                       .state = DtypeOr(g.state_dtype(), default_state)},
          .max_slots = static_cast<int64_t>(g.max_slots()),
          .max_requests = static_cast<int32_t>(g.max_requests()),
          .max_next_n = max_next_n,
          .scores = DtypeOr(g.score_dtype(), kernels::Dtype::kF32),
          .staging = request.executor() == v1::EXECUTOR_SIDECAR || max_next_n > 1};
}

}  // namespace spin::server

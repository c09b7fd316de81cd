// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/options_check.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/bad_argument.h"
#include "kernels/device.h"
#include "kernels/geometry.h"

namespace spin::internal {
namespace {

constexpr int kMaxRequests = 512;
constexpr size_t kMaxNameBytes = 128;

absl::Status CheckRange(absl::string_view option, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return BadArgument(option, absl::StrCat(value, " is not in ", low, " to ", high));
}

absl::Status CheckRatio(absl::string_view option, std::optional<double> value, bool below_one) {
  if (!value.has_value()) return absl::OkStatus();
  const bool ok = *value >= 0 && (below_one ? *value < 1 : *value <= 1);  // false for NaN
  if (ok) return absl::OkStatus();
  return BadArgument(option, absl::StrCat(*value, " is not in [0, 1", below_one ? ")" : "]"));
}

// What SPIN_SOCKET says is not looked at: an environment must not keep an engine from starting.
absl::Status CheckSocket(const std::string& path) {
  constexpr size_t kMost = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() <= kMost) return absl::OkStatus();
  return BadArgument("socket", absl::StrCat("has ", path.size(), " characters, but a unix socket ",
                                            "takes ", kMost, "; choose a shorter path"));
}

absl::Status CheckName(absl::string_view option, const std::string& name, size_t low) {
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isprint(static_cast<unsigned char>(c)) && c != '"' && c != '\\';
  });
  if (name.size() >= low && name.size() <= kMaxNameBytes && printable) return absl::OkStatus();
  return BadArgument(option, absl::StrCat("must be ", low, " to ", kMaxNameBytes,
                                          " printable ASCII characters without quotes"));
}

absl::Status CheckPolicy(const PolicyOverrides& policy, int layers) {
  absl::Status status = CheckRatio("policy.sparsity", policy.sparsity, true);
  status.Update(CheckRatio("policy.exploration", policy.exploration, false));
  status.Update(CheckRatio("policy.decay", policy.decay, true));
  status.Update(CheckRatio("policy.target_miss", policy.target_miss, true));
  status.Update(CheckRatio("policy.min_sparsity", policy.min_sparsity, true));
  status.Update(CheckRatio("policy.max_sparsity", policy.max_sparsity, true));
  if (policy.target_miss.has_value() && *policy.target_miss <= 0) {
    status.Update(BadArgument("policy.target_miss", "is not above 0"));
  }
  if (policy.min_sparsity.has_value() && policy.max_sparsity.has_value() &&
      *policy.min_sparsity > *policy.max_sparsity) {
    status.Update(BadArgument("policy.min_sparsity", "is above policy.max_sparsity"));
  }
  const auto& per_layer = policy.layer_sparsity;
  if (!per_layer.empty() && per_layer.size() != static_cast<size_t>(layers)) {
    status.Update(
        BadArgument("policy.layer_sparsity",
                    absl::StrCat("has ", per_layer.size(), " values for ", layers, " layers")));
  }
  for (size_t i = 0; i < per_layer.size(); ++i) {
    status.Update(CheckRatio(absl::StrCat("policy.layer_sparsity[", i, "]"), per_layer[i], true));
  }
  return status;
}

v1::Dtype ToProto(ElementType type) {
  return type == ElementType::kFloat32 ? v1::DTYPE_F32 : v1::DTYPE_BF16;
}

v1::BudgetMode ToProto(BudgetMode mode) {
  switch (mode) {
    case BudgetMode::kFixed:
      return v1::BUDGET_MODE_FIXED;
    case BudgetMode::kCalibrated:
      return v1::BUDGET_MODE_CALIBRATED;
    case BudgetMode::kTargetMiss:
      return v1::BUDGET_MODE_TARGET_MISS;
  }
  return v1::BUDGET_MODE_UNSPECIFIED;
}

v1::Policy ToProto(const PolicyOverrides& policy) {
  v1::Policy out;
  if (policy.sparsity) out.set_sparsity(*policy.sparsity);
  out.mutable_layer_sparsity()->Assign(policy.layer_sparsity.begin(), policy.layer_sparsity.end());
  if (policy.exploration) out.set_exploration(*policy.exploration);
  if (policy.decay) out.set_decay(*policy.decay);
  if (policy.seed) out.set_seed(*policy.seed);
  if (policy.audit_every) out.set_audit_every(*policy.audit_every);
  if (policy.pin_first_block) out.set_pin_first_block(*policy.pin_first_block);
  if (policy.enabled) out.set_enabled(*policy.enabled);
  if (policy.budget_mode) out.set_budget_mode(ToProto(*policy.budget_mode));
  if (policy.target_miss) out.set_target_miss(*policy.target_miss);
  if (policy.min_sparsity) out.set_min_sparsity(*policy.min_sparsity);
  if (policy.max_sparsity) out.set_max_sparsity(*policy.max_sparsity);
  return out;
}

}  // namespace

absl::Status CheckOptions(const SessionOptions& options) {
  const Model& model = options.model;
  absl::Status status = CheckName("model.name", model.name, 1);
  status.Update(CheckSocket(options.socket));
  status.Update(CheckName("client_name", options.client_name, 0));
  status.Update(CheckName("device_uuid", options.device_uuid, 0));
  status.Update(CheckRange("model.layers", model.layers, 1, kernels::kMaxLayers));
  if (!kernels::IsBlockSize(model.block_slots)) {
    status.Update(BadArgument("model.block_slots",
                              absl::StrCat(model.block_slots, " is not 16, 32, 64 or 128")));
  }
  status.Update(CheckRange("model.topk", model.topk, 1, kernels::kMaxTopk));
  status.Update(
      CheckRange("model.tokens_per_slot", model.tokens_per_slot, 1, kernels::kMaxTokensPerSlot));
  status.Update(CheckRange("model.max_slots", model.max_slots, 1, kernels::kMaxSlots));
  status.Update(CheckRange("max_requests", options.max_requests, 1, kMaxRequests));
  status.Update(CheckRange("max_next_n", options.max_next_n, 1, kernels::kMaxNextN));
  status.Update(CheckPolicy(options.policy, model.layers));
  for (const auto& [name, timeout] :
       {std::pair("step_timeout", options.step_timeout),
        std::pair("control_timeout", options.control_timeout),
        std::pair("reconnect_interval", options.reconnect_interval)}) {
    if (timeout <= absl::ZeroDuration() || timeout > absl::Hours(1)) {
      status.Update(BadArgument(name, "is not in (0, 1 h]"));
    }
  }
  return status;
}

std::string SocketOf(const SessionOptions& options) {
  if (!options.socket.empty()) return options.socket;
  const char* from_environment = std::getenv("SPIN_SOCKET");
  return from_environment != nullptr && *from_environment != '\0' ? from_environment
                                                                  : kDefaultSocket;
}

v1::OpenSessionRequest ToProto(const SessionOptions& options) {
  v1::OpenSessionRequest out;
  out.set_model_name(options.model.name);
  v1::Geometry& geometry = *out.mutable_geometry();
  geometry.set_layers(options.model.layers);
  geometry.set_block_slots(options.model.block_slots);
  geometry.set_topk(options.model.topk);
  geometry.set_tokens_per_slot(options.model.tokens_per_slot);
  geometry.set_max_slots(options.model.max_slots);
  geometry.set_max_requests(options.max_requests);
  geometry.set_max_next_n(options.max_next_n);
  if (options.state) geometry.set_state_dtype(ToProto(*options.state));
  geometry.set_score_dtype(ToProto(options.staged_scores));
  out.set_device_uuid(options.device_uuid.empty() ? std::string(kernels::kCpuUuid)
                                                  : options.device_uuid);
  out.set_executor(options.executor == Executor::kInline ? v1::EXECUTOR_INLINE
                                                         : v1::EXECUTOR_SIDECAR);
  *out.mutable_policy() = ToProto(options.policy);
  out.set_zero_init(options.zero_init);
  out.set_client_name(options.client_name);
  out.set_allow_recording(options.allow_recording);
  return out;
}

}  // namespace spin::internal

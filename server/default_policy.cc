// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/default_policy.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace spin::server {

DefaultPolicy::Opened DefaultPolicy::For(const v1::OpenSessionRequest& request, int layers) const {
  Opened out = {{}, "as the session was opened"};
  size_t budgets = 0;  // of how many layers there are some
  {
    absl::ReaderMutexLock lock(&mutex_);
    out.policy = policy_.ForLayers(layers);
    budgets = policy_.layer_sparsity.size();
  }
  const bool means = budgets != out.policy.layer_sparsity.size();
  if (means && !request.policy().has_sparsity() && request.policy().layer_sparsity().empty()) {
    absl::StrAppend(&out.reason, ", with the mean of the default budgets: they are for ", budgets,
                    " layers, the session has ", layers);
    spdlog::warn(
        "a session of {} gets one sparsity for all layers, {:.4f}: the default budgets are for {} "
        "layers, it has {}",
        request.model_name(), out.policy.sparsity, budgets, layers);
  }
  ApplyPolicy(request.policy(), &out.policy);
  if (const auto conflict = ConflictIn(out.policy); conflict.has_value()) {
    // Not refused: an engine that gets no session loses more than one that learns no budgets.
    spdlog::warn("a session of {} asks for a policy whose {} does not go with the rest: {}",
                 request.model_name(), std::string(conflict->field), conflict->why);
  }
  return out;
}

absl::StatusOr<DefaultPolicy::Changed> DefaultPolicy::Change(const v1::Policy& change) {
  absl::MutexLock lock(&mutex_);
  Policy next = policy_;
  ApplyPolicy(change, &next);
  absl::Status status = RefuseConflict(ConflictIn(next), "policy.");
  if (!status.ok()) return status;
  policy_ = std::move(next);
  return Changed{policy_, ++epoch_};
}

void DefaultPolicy::Describe(v1::ListSessionsResponse* response) const {
  absl::ReaderMutexLock lock(&mutex_);
  *response->mutable_default_policy() = ToProto(policy_);
  response->set_default_policy_epoch(epoch_);
}

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/policy.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "server/refusal.h"

namespace spin::server {
namespace {

absl::Status CheckRatio(double value, bool below_one, absl::string_view prefix,
                        absl::string_view name) {
  const bool ok = value >= 0 && (below_one ? value < 1 : value <= 1);  // false for NaN
  if (ok) return absl::OkStatus();
  return RefuseField(absl::StrCat(prefix, name),
                     absl::StrCat(value, " is not in [0, 1", below_one ? ")" : "]"));
}

absl::Status CheckLayerSparsity(const v1::Policy& change, int layers, absl::string_view prefix) {
  if (change.layer_sparsity().empty()) return absl::OkStatus();
  const int values = change.layer_sparsity_size();
  if (layers == 0 ? values > kernels::kMaxLayers : values != layers) {
    return RefuseField(absl::StrCat(prefix, "layer_sparsity"),
                       absl::StrCat("has ", values, " values for ",
                                    layers == 0 ? absl::StrCat("at most ", kernels::kMaxLayers)
                                                : absl::StrCat(layers),
                                    " layers"));
  }
  for (int i = 0; i < values; ++i) {
    const absl::Status status =
        CheckRatio(change.layer_sparsity(i), true, prefix, absl::StrCat("layer_sparsity[", i, "]"));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckBudget(const v1::Policy& change, absl::string_view prefix) {
  if (!v1::BudgetMode_IsValid(change.budget_mode())) {
    return RefuseField(absl::StrCat(prefix, "budget_mode"),
                       absl::StrCat(change.budget_mode(), " is no mode of this server"));
  }
  const bool positive = !change.has_target_miss() || change.target_miss() > 0;
  if (!positive || !(change.target_miss() < 1)) {
    return RefuseField(absl::StrCat(prefix, "target_miss"),
                       absl::StrCat(change.target_miss(), " is not in (0, 1)"));
  }
  absl::Status status = CheckRatio(change.min_sparsity(), true, prefix, "min_sparsity");
  status.Update(CheckRatio(change.max_sparsity(), true, prefix, "max_sparsity"));
  const bool both = change.has_min_sparsity() && change.has_max_sparsity();
  if (status.ok() && both && change.min_sparsity() > change.max_sparsity()) {
    return RefuseField(
        absl::StrCat(prefix, "min_sparsity"),
        absl::StrCat(change.min_sparsity(), " is more than max_sparsity, ", change.max_sparsity()));
  }
  return status;
}

}  // namespace

double Policy::TargetSparsity() const {
  if (!enabled) return 0;
  if (layer_sparsity.empty()) return sparsity;
  return std::accumulate(layer_sparsity.begin(), layer_sparsity.end(), 0.0) /
         static_cast<double>(layer_sparsity.size());
}

Policy Policy::ForLayers(int layers) const {
  Policy out = *this;
  if (layer_sparsity.empty() || layer_sparsity.size() == static_cast<size_t>(layers)) return out;
  out.sparsity = std::accumulate(layer_sparsity.begin(), layer_sparsity.end(), 0.0) /
                 static_cast<double>(layer_sparsity.size());
  out.layer_sparsity.clear();
  return out;
}

std::optional<PolicyConflict> ConflictIn(const Policy& policy) {
  if (policy.min_sparsity > policy.max_sparsity) {
    return PolicyConflict{
        "min_sparsity",
        absl::StrCat(policy.min_sparsity, " is more than max_sparsity, ", policy.max_sparsity)};
  }
  if (policy.budget_mode != v1::BUDGET_MODE_FIXED && policy.audit_every == 0) {
    return PolicyConflict{"audit_every",
                          "0 audits nothing, and budgets are learnt from audits: try 64"};
  }
  return std::nullopt;
}

absl::Status RefuseConflict(const std::optional<PolicyConflict>& conflict,
                            absl::string_view prefix) {
  if (!conflict.has_value()) return absl::OkStatus();
  return RefuseField(absl::StrCat(prefix, conflict->field), conflict->why);
}

absl::Status CheckPolicy(const v1::Policy& change, int layers, absl::string_view prefix) {
  absl::Status status;
  if (change.has_sparsity()) status.Update(CheckRatio(change.sparsity(), true, prefix, "sparsity"));
  if (change.has_exploration()) {
    status.Update(CheckRatio(change.exploration(), false, prefix, "exploration"));
  }
  if (change.has_decay()) status.Update(CheckRatio(change.decay(), true, prefix, "decay"));
  status.Update(CheckLayerSparsity(change, layers, prefix));
  status.Update(CheckBudget(change, prefix));
  return status;
}

void ApplyPolicy(const v1::Policy& change, Policy* policy) {
  if (change.has_sparsity()) {
    policy->sparsity = change.sparsity();
    policy->layer_sparsity.clear();
  }
  if (!change.layer_sparsity().empty()) {
    policy->layer_sparsity.assign(change.layer_sparsity().begin(), change.layer_sparsity().end());
  }
  if (change.has_exploration()) policy->exploration = change.exploration();
  if (change.has_decay()) policy->decay = change.decay();
  if (change.has_seed()) policy->seed = change.seed();
  if (change.has_audit_every()) policy->audit_every = change.audit_every();
  if (change.has_pin_first_block()) policy->pin_first_block = change.pin_first_block();
  if (change.has_enabled()) policy->enabled = change.enabled();
  if (change.budget_mode() != v1::BUDGET_MODE_UNSPECIFIED) {
    policy->budget_mode = change.budget_mode();
  }
  if (change.has_target_miss()) policy->target_miss = change.target_miss();
  if (change.has_min_sparsity()) policy->min_sparsity = change.min_sparsity();
  if (change.has_max_sparsity()) policy->max_sparsity = change.max_sparsity();
}

bool ChangesBudgets(const v1::Policy& change) {
  return change.has_sparsity() || !change.layer_sparsity().empty() || change.has_exploration() ||
         change.has_enabled() || change.budget_mode() != v1::BUDGET_MODE_UNSPECIFIED ||
         change.has_target_miss() || change.has_min_sparsity() || change.has_max_sparsity();
}

v1::Policy ToProto(const Policy& policy) {
  v1::Policy out;
  out.set_sparsity(policy.sparsity);
  out.mutable_layer_sparsity()->Assign(policy.layer_sparsity.begin(), policy.layer_sparsity.end());
  out.set_exploration(policy.exploration);
  out.set_decay(policy.decay);
  out.set_seed(policy.seed);
  out.set_audit_every(policy.audit_every);
  out.set_pin_first_block(policy.pin_first_block);
  out.set_enabled(policy.enabled);
  out.set_budget_mode(policy.budget_mode);
  out.set_target_miss(policy.target_miss);
  out.set_min_sparsity(policy.min_sparsity);
  out.set_max_sparsity(policy.max_sparsity);
  return out;
}

kernels::Policy ToKernels(const Policy& policy, int layers) {
  kernels::Policy out = {};
  for (int layer = 0; layer < layers; ++layer) {
    out.sparsity[layer] = policy.enabled ? policy.SparsityOf(layer) : 0;
  }
  out.exploration = policy.exploration;
  out.decay = policy.decay;
  out.seed = policy.seed;
  out.audit_every = policy.enabled ? policy.audit_every : 0;
  out.pin_first_block = policy.pin_first_block ? 1 : 0;
  return out;
}

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/policy.h"
#include "spin/v1/policy.pb.h"

// A policy in force: what the flags, a session's request and UpdatePolicy add up to.
namespace spin::server {

struct Policy {
  double sparsity = 0.4;
  std::vector<double> layer_sparsity;  // empty, or one for each layer
  double exploration = 0.05;
  double decay = 0.5;
  uint64_t seed = 0;
  uint32_t audit_every = 64;
  bool pin_first_block = false;
  bool enabled = true;
  v1::BudgetMode budget_mode = v1::BUDGET_MODE_FIXED;
  double target_miss = 0.01;
  double min_sparsity = 0;
  double max_sparsity = 0.95;

  double SparsityOf(int layer) const {
    return layer_sparsity.empty() ? sparsity : layer_sparsity[layer];
  }
  // Mean over layers; 0 if switched off.
  double TargetSparsity() const;
  // The same for a session of `layers` layers: budgets of another number of layers, as a policy
  // file for another model has them, become their mean.
  Policy ForLayers(int layers) const;
};

// Checks every field that is set. `layers` is the session's number of layers, or 0 if it is not
// known (then any number of per-layer values is right). `prefix` is put before field names, such as
// "policy.".
absl::Status CheckPolicy(const v1::Policy& change, int layers, absl::string_view prefix);

// Fields of a policy that do not go together: one of them, and why.
struct PolicyConflict {
  absl::string_view field;  // as in the proto
  std::string why;
};
std::optional<PolicyConflict> ConflictIn(const Policy& policy);
// OK without one.
absl::Status RefuseConflict(const std::optional<PolicyConflict>& conflict,
                            absl::string_view prefix);

// Overlays the fields that are set. The change must have passed CheckPolicy.
void ApplyPolicy(const v1::Policy& change, Policy* policy);

// Whether a change says something about how many blocks are kept.
bool ChangesBudgets(const v1::Policy& change);

v1::Policy ToProto(const Policy& policy);
kernels::Policy ToKernels(const Policy& policy, int layers);

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "calibration/allocation.h"
#include "calibration/miss_curve.h"
#include "kernels/layer_audits.h"

// Decides the layers' budgets from audits, as they come in.
//
//   kCalibrated   The total is given; it is shared out so that the fewest true top-K slots are
//                 missed. Refitted while that is worth it: often at first, seldom later.
//   kTargetMiss   The total is what the curves allow at the target. Down (more blocks) at once, up
//                 in small steps and not before enough audits have seen the last one. If recent
//                 audits miss far more than the target, what was learnt no longer holds: older
//                 audits are dropped, and the budgets fall back to what the recent ones ask for.
//
// Old audits are forgotten exponentially, so that curves follow the load. Deterministic in the
// audits. Allocates only in Take. Not thread-safe.
namespace spin::calibration {

enum class BudgetGoal { kCalibrated, kTargetMiss };

struct BudgetOptions {
  BudgetGoal goal = BudgetGoal::kCalibrated;
  double target_miss = 0.01;  // kTargetMiss: mean over layers and steps
  double min_sparsity = 0;    // kTargetMiss: bounds of the total
  double max_sparsity = 0.95;
  double exploration = 0;  // gamma of the policy
  int topk_blocks = 0;     // ceil(K / b): no list is shorter, so no budget need be
};

// What audits of some steps saw of one layer.
struct LayerSample {
  uint64_t topk_slots = 0;
  uint64_t missed_slots = 0;
  uint64_t blocks = 0;  // of the contexts
  std::array<uint64_t, kernels::kRankBins> rank_slots = {};
};

struct BudgetDecision {
  std::vector<double> sparsity;  // [layers]
  bool fallback = false;         // more blocks, because misses had jumped
  std::string reason;            // one line, for people
};

class BudgetController {
 public:
  // Starts from the budgets in force, rho for each layer.
  BudgetController(std::vector<double> sparsity, const BudgetOptions& options);

  // Takes in `rows` audited requests-in-a-step, one sample for each layer; returns the new budgets
  // if they are to change. The samples must have been made under the budgets in force, or nearly
  // so.
  std::optional<BudgetDecision> Take(absl::Span<const LayerSample> layers, uint64_t rows);

  // Takes audits in, and leaves the budgets alone.
  void Watch(absl::Span<const LayerSample> layers, uint64_t rows);

  const std::vector<double>& sparsity() const { return sparsity_; }
  double total_sparsity() const;
  uint64_t audited_rows() const { return rows_; }
  // Miss that recent audits saw under the budgets of their time; 0 without any.
  double recent_miss() const { return recent_miss_; }
  // What the curves say of the budgets in force.
  double expected_miss() const;

 private:
  std::optional<BudgetDecision> Calibrate();
  std::optional<BudgetDecision> HoldTarget(double seen, uint64_t rows);
  void Correct(double seen, uint64_t rows);
  std::optional<BudgetDecision> FallBack();
  void Learn(absl::Span<const LayerSample> layers, uint64_t rows);
  BudgetDecision Adopt(const Allocation& next, bool fallback, std::string why);
  std::vector<MissCurve> Beliefs(const std::vector<MissCurve>& seen, double prior_rows) const;
  Allocation PlanFor(const std::vector<MissCurve>& curves, double miss) const;

  BudgetOptions options_;
  AllocationLimits limits_;
  double total_;  // kCalibrated: to be kept
  double aim_;    // kTargetMiss: the miss that is planned for
  std::vector<double> sparsity_;
  std::vector<MissCurve> slow_;  // [layers]
  std::vector<MissCurve> fast_;  // [layers] of the last few audits
  double slots_per_row_ = 0;     // true top-K slots of a layer in an audited row
  double blocks_per_row_ = 0;    // blocks of its context
  uint64_t rows_ = 0;
  uint64_t rows_since_change_ = 0;
  uint64_t rows_until_rise_ = 0;
  double recent_miss_ = 0;
};

}  // namespace spin::calibration

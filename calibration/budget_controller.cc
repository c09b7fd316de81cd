// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "calibration/budget_controller.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"

namespace spin::calibration {
namespace {

// Audited rows after which 1/e of an audit's weight is left.
constexpr double kSlowRows = 512;
constexpr double kFastRows = 8;

// Weight of what all layers have in common, in audited rows, beside what a layer showed itself.
constexpr double kPriorRows = 4;

// Calibrated: a refit must be expected to lower the miss by this share, and the number of rows
// behind it must have grown by half since the last, up to a limit.
constexpr double kWorthwhile = 0.03;
constexpr uint64_t kFirstRefitRows = 2;
constexpr uint64_t kRefitRows = 32;

// Target: what is seen after a change is worse than what the curves promised, because the best
// budgets for the audits at hand are not quite those for the next ones. So the miss to plan for
// follows, slowly, what it takes to see kSetPoint of the target.
constexpr double kSetPoint = 0.9;
constexpr double kFirstAim = 0.8;  // of the target
constexpr double kLeastAim = 0.5;
constexpr double kJumpAim = 0.6;  // after a jump: few audits are behind the plan then
constexpr double kMostAim = 1.1;
constexpr double kAimRows = 128;    // audited rows that move the aim by what is seen
constexpr double kSeenAtMost = 3;   // times the target: one bad audit is no trend
constexpr double kRise = 0.05;      // of total sparsity, at most at a time
constexpr double kDeadBand = 0.01;  // of total sparsity: smaller changes are not worth an epoch
constexpr uint64_t kRiseRows = 4;   // audited rows between two rises
constexpr uint64_t kLowerRows = 4;  // ... before budgets are lowered
constexpr double kJump = 2.5;       // recent miss over target that means a jump ...
constexpr uint64_t kJumpRows = 4;   // ... once so many rows have seen the budgets in force
constexpr uint64_t kAfterJumpRows = 24;  // before the total may rise again

double DecayOver(uint64_t rows, double window) {
  return std::exp(-static_cast<double>(rows) / window);
}

double Mean(absl::Span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double MissOf(absl::Span<const LayerSample> layers) {
  double sum = 0;
  for (const LayerSample& layer : layers) {
    if (layer.topk_slots == 0) continue;
    sum += static_cast<double>(layer.missed_slots) / static_cast<double>(layer.topk_slots);
  }
  return sum / static_cast<double>(layers.size());
}

}  // namespace

BudgetController::BudgetController(std::vector<double> sparsity, const BudgetOptions& options)
    : options_(options),
      limits_{.min_keep = 0, .exploration = options.exploration},
      total_(Mean(sparsity)),
      aim_(kFirstAim * options.target_miss),
      sparsity_(std::move(sparsity)),
      slow_(sparsity_.size()),
      fast_(sparsity_.size()) {}

double BudgetController::total_sparsity() const { return Mean(sparsity_); }

double BudgetController::expected_miss() const {
  return rows_ == 0 ? 0 : ExpectedMiss(slow_, sparsity_, options_.exploration);
}

void BudgetController::Learn(absl::Span<const LayerSample> layers, uint64_t rows) {
  const double slow = DecayOver(rows, kSlowRows);
  const double fast = DecayOver(rows, kFastRows);
  double slots = 0, blocks = 0;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    slow_[layer].Decay(slow);
    fast_[layer].Decay(fast);
    slow_[layer].Add(layers[layer].rank_slots);
    fast_[layer].Add(layers[layer].rank_slots);
    slots += static_cast<double>(layers[layer].topk_slots);
    blocks += static_cast<double>(layers[layer].blocks);
  }
  // The first audits count in full: an average that starts at 0 would hide a bad start.
  const double share = static_cast<double>(rows) / static_cast<double>(rows_ + rows);
  const double weight = std::max(1 - fast, share);
  const double per_row = 1 / static_cast<double>(layers.size() * rows);
  slots_per_row_ += weight * (slots * per_row - slots_per_row_);
  blocks_per_row_ += weight * (blocks * per_row - blocks_per_row_);
  recent_miss_ += weight * (MissOf(layers) - recent_miss_);
  const double keep = blocks_per_row_ > 0 ? options_.topk_blocks / blocks_per_row_ : 0;
  limits_.min_keep = std::clamp(keep, 0.0, 1.0);
}

void BudgetController::Watch(absl::Span<const LayerSample> layers, uint64_t rows) {
  if (rows == 0 || layers.size() != sparsity_.size()) return;
  Learn(layers, rows);
  rows_ += rows;
  rows_since_change_ += rows;
  rows_until_rise_ -= std::min(rows_until_rise_, rows);
}

std::optional<BudgetDecision> BudgetController::Take(absl::Span<const LayerSample> layers,
                                                     uint64_t rows) {
  if (rows == 0 || layers.size() != sparsity_.size()) return std::nullopt;
  Watch(layers, rows);
  return options_.goal == BudgetGoal::kCalibrated ? Calibrate() : HoldTarget(MissOf(layers), rows);
}

std::vector<MissCurve> BudgetController::Beliefs(const std::vector<MissCurve>& seen,
                                                 double prior_rows) const {
  return Shrunk(seen, prior_rows * slots_per_row_);
}

std::optional<BudgetDecision> BudgetController::Calibrate() {
  const uint64_t wait = std::clamp(rows_ / 2, kFirstRefitRows, kRefitRows);
  if (rows_since_change_ < wait) return std::nullopt;
  const std::vector<MissCurve> curves = Beliefs(slow_, kPriorRows);
  const absl::StatusOr<Allocation> next = AllocateAtSparsity(curves, total_, limits_);
  const double now = ExpectedMiss(curves, sparsity_, options_.exploration);
  // Contexts that are short for K can't reach the total whatever the budgets: theirs would stay in
  // force for the long ones that come after them.
  if (!next.ok() || next->total_sparsity < total_ - kDeadBand) return std::nullopt;
  if (next->expected_miss >= (1 - kWorthwhile) * now) return std::nullopt;
  return Adopt(*next, false,
               absl::StrFormat("calibrated on %d audits: expected miss %.3f %% instead of %.3f %%",
                               rows_, 100 * next->expected_miss, 100 * now));
}

Allocation BudgetController::PlanFor(const std::vector<MissCurve>& curves, double miss) const {
  const double low = std::min(options_.min_sparsity, options_.max_sparsity);
  absl::StatusOr<Allocation> plan = AllocateAtMiss(curves, miss, limits_);
  const double total = plan.ok() ? plan->total_sparsity : low;
  const double bounded = std::clamp(total, low, options_.max_sparsity);
  if (!plan.ok() || bounded != total) plan = AllocateAtSparsity(curves, bounded, limits_);
  return plan.ok() ? *plan : Allocation{std::vector<double>(sparsity_.size(), low), low, 0};
}

std::optional<BudgetDecision> BudgetController::FallBack() {
  const double before = recent_miss_;
  slow_ = fast_;
  rows_until_rise_ = kAfterJumpRows;
  aim_ = std::min(aim_, kJumpAim * options_.target_miss);
  recent_miss_ = options_.target_miss;  // of the budgets that follow nothing was seen yet
  return Adopt(PlanFor(Beliefs(fast_, kPriorRows), aim_), true,
               absl::StrFormat("recent audits missed %.3f %%, the target is %.3f %%: more blocks",
                               100 * before, 100 * options_.target_miss));
}

void BudgetController::Correct(double seen, uint64_t rows) {
  const double target = options_.target_miss;
  const double error = kSetPoint * target - std::min(seen, kSeenAtMost * target);
  aim_ = std::clamp(aim_ + static_cast<double>(rows) / kAimRows * error, kLeastAim * target,
                    kMostAim * target);
}

std::optional<BudgetDecision> BudgetController::HoldTarget(double seen, uint64_t rows) {
  const double total = total_sparsity();
  if (recent_miss_ > kJump * options_.target_miss && rows_since_change_ >= kJumpRows) {
    return FallBack();
  }
  const std::vector<MissCurve> curves = Beliefs(slow_, kPriorRows);
  Allocation plan = PlanFor(curves, aim_);
  // While the total is on its way up, or at a bound, too few misses say nothing about the plan.
  const bool held = plan.total_sparsity > total + kDeadBand || total >= options_.max_sparsity;
  if (!held || seen > kSetPoint * options_.target_miss) Correct(seen, rows);
  const bool lower = plan.total_sparsity < total - kDeadBand;
  if (rows_since_change_ < (lower ? kLowerRows : kRiseRows)) return std::nullopt;
  if (!lower && rows_until_rise_ > 0) return std::nullopt;
  if (plan.total_sparsity > total + kRise) {
    const absl::StatusOr<Allocation> step = AllocateAtSparsity(curves, total + kRise, limits_);
    if (!step.ok()) return std::nullopt;
    plan = *step;
  }
  const double now = ExpectedMiss(curves, sparsity_, options_.exploration);
  const bool moves = std::abs(plan.total_sparsity - total) > kDeadBand;
  const bool better = plan.expected_miss < (1 - kWorthwhile) * now &&
                      plan.total_sparsity >= total - kDeadBand && rows_since_change_ >= kRefitRows;
  if (!moves && !better) return std::nullopt;
  return Adopt(
      plan, false,
      absl::StrFormat("expected miss %.3f %% at a total of %.1f %%, before %.3f %% at "
                      "%.1f %%",
                      100 * plan.expected_miss, 100 * plan.total_sparsity, 100 * now, 100 * total));
}

BudgetDecision BudgetController::Adopt(const Allocation& next, bool fallback, std::string why) {
  sparsity_ = next.sparsity;
  rows_since_change_ = 0;
  return {sparsity_, fallback, std::move(why)};
}

}  // namespace spin::calibration

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/session_budgets.h"

#include <algorithm>
#include <numeric>

namespace spin::server {
namespace {

using calibration::BudgetController;
using calibration::BudgetGoal;
using calibration::LayerSample;

// Looks that wait for all layers of an audited step. A step whose engine failed never gets them.
constexpr int kPatience = 10;

bool Learns(const Policy& policy) {
  return policy.enabled && policy.budget_mode != v1::BUDGET_MODE_FIXED;
}

uint64_t RowsOf(const kernels::LayerAudits& audits) {
  return std::accumulate(std::begin(audits.miss_rows), std::end(audits.miss_rows), uint64_t{0});
}

LayerSample Difference(const kernels::LayerCounters& counters, const kernels::LayerAudits& audits,
                       const kernels::LayerCounters& counters_before,
                       const kernels::LayerAudits& audits_before) {
  LayerSample sample;
  sample.topk_slots = counters.audit_topk_slots - counters_before.audit_topk_slots;
  sample.missed_slots = counters.audit_missed_slots - counters_before.audit_missed_slots;
  sample.blocks = audits.blocks - audits_before.blocks;
  for (int bin = 0; bin < kernels::kRankBins; ++bin) {
    sample.rank_slots[bin] = audits.rank_slots[bin] - audits_before.rank_slots[bin];
  }
  return sample;
}

}  // namespace

SessionBudgets::SessionBudgets(const kernels::Geometry& geometry, const Policy& policy)
    : geometry_(geometry),
      learns_(Learns(policy)),
      controller_(ControllerFor(policy)),
      counters_(geometry.layers),
      audits_(geometry.layers) {}

BudgetController SessionBudgets::ControllerFor(const Policy& policy) const {
  std::vector<double> sparsity;
  for (int layer = 0; layer < geometry_.layers; ++layer) {
    sparsity.push_back(policy.SparsityOf(layer));
  }
  const bool target = policy.budget_mode == v1::BUDGET_MODE_TARGET_MISS;
  return BudgetController(std::move(sparsity),
                          {.goal = target ? BudgetGoal::kTargetMiss : BudgetGoal::kCalibrated,
                           .target_miss = policy.target_miss,
                           .min_sparsity = policy.min_sparsity,
                           .max_sparsity = policy.max_sparsity,
                           .exploration = policy.exploration,
                           .topk_blocks = kernels::BlocksOf(geometry_.topk, geometry_.block)});
}

void SessionBudgets::Restart(const Policy& policy, const SessionTotals& now) {
  learns_ = Learns(policy);
  controller_ = ControllerFor(policy);
  counters_ = now.layers;
  audits_ = now.audits;
  looks_at_half_a_step_ = 0;
}

std::optional<calibration::BudgetDecision> SessionBudgets::Review(const SessionTotals& now) {
  std::vector<LayerSample> samples;
  uint64_t least = UINT64_MAX, most = 0;
  for (int layer = 0; layer < geometry_.layers; ++layer) {
    if (RowsOf(now.audits[layer]) < RowsOf(audits_[layer])) return std::nullopt;  // read earlier
    const uint64_t rows = RowsOf(now.audits[layer]) - RowsOf(audits_[layer]);
    least = std::min(least, rows);
    most = std::max(most, rows);
  }
  if (most == 0) return std::nullopt;
  if (least < most && ++looks_at_half_a_step_ < kPatience) return std::nullopt;
  looks_at_half_a_step_ = 0;
  for (int layer = 0; layer < geometry_.layers; ++layer) {
    samples.push_back(
        Difference(now.layers[layer], now.audits[layer], counters_[layer], audits_[layer]));
  }
  counters_ = now.layers;
  audits_ = now.audits;
  if (!learns_) {
    controller_.Watch(samples, most);
    return std::nullopt;
  }
  return controller_.Take(samples, most);
}

}  // namespace spin::server

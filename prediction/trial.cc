// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/trial.h"

#include <numeric>

#include "kernels/budget.h"
#include "kernels/exploration.h"

namespace spin::prediction {

Trial::Trial(MakePredictor make, const TrialOptions& options)
    : geometry_(options.geometry),
      policy_(options.policy),
      choice_(options.geometry, options.max_slots, options.policy),
      all_blocks_(kernels::BlocksOf(options.max_slots, options.geometry.block)),
      layers_(options.geometry.layers),
      tallies_(options.geometry.layers) {
  std::iota(all_blocks_.begin(), all_blocks_.end(), 0);
  kernels::Geometry one_layer = options.geometry;
  one_layer.layers = 1;
  for (int layer = 0; layer < geometry_.layers; ++layer) {
    layers_[layer].predictor =
        make({one_layer, layer, options.max_slots, options.policy.decay, options.policy.seed});
    layers_[layer].worth.resize(all_blocks_.size());
  }
}

void Trial::Visit(const LayerStep& at) {
  Layer& layer = layers_[at.layer];
  if (layer.predictor == nullptr) return;
  const Scan& scan = at.scan();
  const auto all = absl::MakeConstSpan(all_blocks_).first(scan.blocks);
  layer.kept = {};
  if (at.step == 0) return layer.predictor->Observe(at, all);
  const double sparsity = policy_.sparsity[at.layer];
  const auto budget =
      kernels::BudgetOf(kernels::ExtentOf(scan.query, 1, geometry_), 1, geometry_.topk,
                        geometry_.block, sparsity, 0, policy_.pin_first_block != 0);
  const auto worth = absl::MakeSpan(layer.worth).first(scan.blocks);
  layer.predictor->Predict(at, budget.keep, worth);
  const int keep = layer.predictor->Keep(at, sparsity, budget.keep);
  layer.kept = choice_.Choose(
      at.layer, scan.query, 1,
      keep == budget.keep ? sparsity : BlockChoice::SparsityOf(keep, scan.blocks), worth);
  const bool audited = kernels::AuditDue(policy_.seed, 0, scan.query, policy_.audit_every);
  Count(at, layer.kept, audited);
  layer.predictor->Observe(at, audited ? all : layer.kept);
}

void Trial::Count(const LayerStep& at, absl::Span<const int32_t> kept, bool audited) {
  const Scan& scan = at.scan();
  int held = 0;
  for (const int32_t j : kept) held += scan.needed[j];
  tallies_[at.layer].Add(scan.truth - held, scan.truth,
                         audited ? scan.blocks : static_cast<int>(kept.size()), scan.blocks);
}

}  // namespace spin::prediction

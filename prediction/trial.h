// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// One predictor under one policy, played over a trace.
#pragma once

#include <memory>
#include <vector>

#include "kernels/geometry.h"
#include "kernels/policy.h"
#include "prediction/block_choice.h"
#include "prediction/predictor.h"
#include "prediction/tally.h"
#include "prediction/walk.h"

namespace spin::prediction {

struct TrialOptions {
  kernels::Geometry geometry;  // layers: those of the trace
  int64_t max_slots;           // of the longest context
  kernels::Policy policy;      // audit_every: audited steps score everything, and count as kept
};

class Trial : public LayerVisitor {
 public:
  Trial(MakePredictor make, const TrialOptions& options);

  // Step 0 scans everything, has no prediction and is not counted.
  void Visit(const LayerStep& at) override;

  MissSummary Read() const { return Summarize(tallies_); }
  const LayerTally& layer(int layer) const { return tallies_[layer]; }

  // The list of the step that was visited last; empty where there was no prediction.
  absl::Span<const int32_t> kept(int layer) const { return layers_[layer].kept; }

 private:
  struct Layer {
    std::unique_ptr<Predictor> predictor;
    std::vector<float> worth;  // [max_blocks]
    absl::Span<const int32_t> kept;
  };
  void Count(const LayerStep& at, absl::Span<const int32_t> kept, bool audited);

  kernels::Geometry geometry_;
  kernels::Policy policy_;
  BlockChoice choice_;
  std::vector<int32_t> all_blocks_;  // 0, 1, ...
  std::vector<Layer> layers_;
  std::vector<LayerTally> tallies_;  // [layers]
};

}  // namespace spin::prediction

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <vector>

#include "prediction/block_choice.h"
#include "prediction/predictors.h"

namespace spin::prediction {
namespace {

constexpr int kLayersBack = 5;

class BestPreviousLayer : public Predictor {
 public:
  explicit BestPreviousLayer(const PredictorOptions& options)
      : choice_(options.geometry, options.max_slots, kernels::Policy()) {}

  void Predict(const LayerStep& at, int keep, absl::Span<float> worth) override {
    int most = -1;
    for (int other = at.layer - 1; other >= std::max(0, at.layer - kLayersBack); --other) {
      const std::vector<float>& block_max = at.of_layer(other).block_max;
      const int held = Held(at.scan(), block_max, keep);
      if (held <= most) continue;  // a tie goes to the nearer layer
      most = held;
      std::copy(block_max.begin(), block_max.end(), worth.begin());
    }
  }

 private:
  // True top-K slots in the blocks that would be kept.
  int Held(const Scan& scan, const std::vector<float>& block_max, int keep) {
    int held = 0;
    const double sparsity = BlockChoice::SparsityOf(keep, scan.blocks);
    for (const int32_t j : choice_.Choose(0, scan.query, 1, sparsity, block_max)) {
      held += scan.needed[j];
    }
    return held;
  }

  BlockChoice choice_;
};

}  // namespace

std::unique_ptr<Predictor> MakeBestPreviousLayer(const PredictorOptions& options) {
  if (options.layer == 0) return nullptr;
  return std::make_unique<BestPreviousLayer>(options);
}

}  // namespace spin::prediction

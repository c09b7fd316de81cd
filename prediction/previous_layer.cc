// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "prediction/predictors.h"

namespace spin::prediction {
namespace {

class PreviousLayer : public Predictor {
 public:
  void Predict(const LayerStep& at, int keep, absl::Span<float> worth) override {
    const auto& block_max = at.of_layer(at.layer - 1).block_max;
    std::copy(block_max.begin(), block_max.end(), worth.begin());
  }
};

}  // namespace

std::unique_ptr<Predictor> MakePreviousLayer(const PredictorOptions& options) {
  if (options.layer == 0) return nullptr;
  return std::make_unique<PreviousLayer>();
}

}  // namespace spin::prediction

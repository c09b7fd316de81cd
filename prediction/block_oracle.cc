// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "prediction/predictors.h"

namespace spin::prediction {
namespace {

class BlockOracle : public Predictor {
 public:
  void Predict(const LayerStep& at, int keep, absl::Span<float> worth) override {
    const auto& needed = at.scan().needed;
    std::copy(needed.begin(), needed.end(), worth.begin());
  }
};

}  // namespace

std::unique_ptr<Predictor> MakeBlockOracle(const PredictorOptions& options) {
  return std::make_unique<BlockOracle>();
}

}  // namespace spin::prediction

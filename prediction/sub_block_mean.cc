// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/predictors.h"

namespace spin::prediction {
namespace {

class SubBlockMean : public Predictor {
 public:
  explicit SubBlockMean(int block) : block_(block) {}

  void Predict(const LayerStep& at, int keep, absl::Span<float> worth) override {
    MaxPool(at.scan().estimates, block_ / kSubBlockSlots, worth);
  }

 private:
  int block_;
};

}  // namespace

std::unique_ptr<Predictor> MakeSubBlockMean(const PredictorOptions& options) {
  return std::make_unique<SubBlockMean>(options.geometry.block);
}

}  // namespace spin::prediction

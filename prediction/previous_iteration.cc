// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <limits>
#include <vector>

#include "prediction/predictors.h"

namespace spin::prediction {
namespace {

constexpr float kUnseen = -std::numeric_limits<float>::infinity();

class PreviousIteration : public Predictor {
 public:
  void Predict(const LayerStep& at, int keep, absl::Span<float> worth) override {
    const std::vector<float>& block_max = at.previous().block_max;
    std::fill(worth.begin(), worth.end(), kUnseen);  // a block that is new in this step
    std::copy(block_max.begin(), block_max.end(), worth.begin());
  }
};

class PreviousIterationOffset : public Predictor {
 public:
  explicit PreviousIterationOffset(int block) : block_(block) {}

  void Predict(const LayerStep& at, int keep, absl::Span<float> worth) override {
    const std::vector<float>& scores = at.previous().scores;
    shifted_.assign(1, kUnseen);  // slot 0 has nothing before it
    shifted_.insert(shifted_.end(), scores.begin(), scores.end());
    MaxPool(shifted_, block_, worth);
  }

 private:
  int block_;
  std::vector<float> shifted_;
};

}  // namespace

std::unique_ptr<Predictor> MakePreviousIteration(const PredictorOptions& options) {
  return std::make_unique<PreviousIteration>();
}

std::unique_ptr<Predictor> MakePreviousIterationOffset(const PredictorOptions& options) {
  return std::make_unique<PreviousIterationOffset>(options.geometry.block);
}

}  // namespace spin::prediction

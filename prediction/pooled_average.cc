// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ema.h"
#include "prediction/predictors.h"

namespace spin::prediction {
namespace {

class PooledAverage : public Predictor {
 public:
  explicit PooledAverage(const PredictorOptions& options)
      : block_(options.geometry.block),
        weights_(kernels::WeightsOf(options.decay)),
        vertical_(kernels::BlocksOf(options.max_slots, block_), kernels::kUnobserved),
        diagonal_(vertical_) {}

  void Predict(const LayerStep& at, int keep, absl::Span<float> worth) override {
    const size_t here = at.scan().query / block_;
    for (size_t j = 0; j < worth.size(); ++j)
      worth[j] = std::max(vertical_[j], diagonal_[here - j]);
  }

  void Observe(const LayerStep& at, absl::Span<const int32_t> kept) override {
    const Scan& scan = at.scan();
    const int64_t here = scan.query / block_;
    for (const int32_t j : kept) {
      Move(scan.block_max[j], &vertical_[j]);
      Move(scan.block_max[j], &diagonal_[here - j]);
    }
  }

 private:
  void Move(float score, float* average) const {
    if (!std::isfinite(score)) return;
    *average =
        *average == kernels::kUnobserved ? score : weights_.past * *average + weights_.now * score;
  }

  int block_;
  kernels::EmaWeights weights_;
  std::vector<float> vertical_;  // [blocks]
  std::vector<float> diagonal_;  // [blocks] by distance from the query's block
};

}  // namespace

std::unique_ptr<Predictor> MakePooledAverage(const PredictorOptions& options) {
  return std::make_unique<PooledAverage>(options);
}

}  // namespace spin::prediction

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/exploration.h"
#include "prediction/predictors.h"

namespace spin::prediction {
namespace {

class Random : public Predictor {
 public:
  Random(uint64_t seed, int layer) : seed_(seed), layer_(layer) {}

  void Predict(const LayerStep& at, int keep, absl::Span<float> worth) override {
    for (size_t j = 0; j < worth.size(); ++j) {
      const auto draw =
          kernels::DrawBlocks(seed_, 0, at.scan().query, layer_, static_cast<int>(j) / 4);
      worth[j] = static_cast<float>(draw.words[j % 4] >> 8);  // 24 bits: a float holds them
    }
  }

 private:
  uint64_t seed_;
  int layer_;
};

}  // namespace

std::unique_ptr<Predictor> MakeRandom(const PredictorOptions& options) {
  return std::make_unique<Random>(options.seed, options.layer);
}

}  // namespace spin::prediction

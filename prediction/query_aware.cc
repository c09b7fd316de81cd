// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <vector>

#include "prediction/predictors.h"
#include "prediction/spin_state.h"

namespace spin::prediction {
namespace {

constexpr float kNow = 0.8f;        // weight of the estimate under the current query; the rest is S
constexpr float kLackDecay = 0.5f;  // of the average of what the estimate lacked

class QueryAware : public Predictor {
 public:
  explicit QueryAware(const PredictorOptions& options)
      : state_(options.geometry, options.max_slots, options.decay),
        lack_(kernels::BlocksOf(options.max_slots, options.geometry.block), NAN) {}

  void Predict(const LayerStep& at, int keep, absl::Span<float> worth) override {
    state_.Predict(at.scan().query, 1, worth);
    const std::vector<float>& estimates = at.scan().estimates;
    for (size_t j = 0; j < worth.size(); ++j) {
      const float now = std::isnan(lack_[j]) ? estimates[j] : estimates[j] + lack_[j];
      worth[j] = std::isfinite(worth[j]) ? kNow * now + (1 - kNow) * worth[j] : now;
    }
  }

  void Observe(const LayerStep& at, absl::Span<const int32_t> kept) override {
    const Scan& scan = at.scan();
    const float* scores = scan.scores.data();
    state_.Observe(scan.query, 1, kept, {&scores, 1});
    for (const int32_t j : kept) {
      const float lacked = scan.block_max[j] - scan.estimates[j];
      if (!std::isfinite(lacked)) continue;
      float& average = lack_[j];
      average = std::isnan(average) ? lacked : kLackDecay * average + (1 - kLackDecay) * lacked;
    }
  }

 private:
  SpinState state_;
  std::vector<float> lack_;  // [blocks] block max - estimate; NaN: never observed
};

}  // namespace

std::unique_ptr<Predictor> MakeQueryAware(const PredictorOptions& options) {
  return std::make_unique<QueryAware>(options);
}

}  // namespace spin::prediction

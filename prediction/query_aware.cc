// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "prediction/predictors.h"
#include "trace/topk.h"

namespace spin::prediction {
namespace {

// Standard deviation of an error whose mean absolute value is 1, and of a logistic distribution of
// scale 1: with their ratio a logistic curve stands for the normal distribution of the error.
constexpr float kDeviation = 1.2533f, kLogisticDeviation = 1.8138f;

// A slot's score is what its sub-block's mean key gets from the current query, plus how much more
// the slot itself got in the past (one moving average a slot, in place of V and D). A block is worth
// the top-K slots that it is expected to hold: the sum over its slots of the probability that the
// score, with the error that predictions had in the last step, is above the K-th best one.
class QueryAware : public Predictor {
 public:
  explicit QueryAware(const PredictorOptions& options)
      : block_(options.geometry.block),
        topk_(options.geometry.topk),
        decay_(static_cast<float>(options.decay)),
        excess_(options.max_slots, kNever) {}

  void Predict(const LayerStep& at, int keep, absl::Span<float> worth) override {
    const Scan& scan = at.scan();
    predicted_.resize(scan.slots);
    for (int slot = 0; slot < scan.slots; ++slot) predicted_[slot] = Predicted(scan, slot);
    const float threshold = KthBest(predicted_);
    const float scale = std::max(error_ * kDeviation / kLogisticDeviation,
                                 std::numeric_limits<float>::min());
    std::fill(worth.begin(), worth.end(), 0.0f);
    for (int slot = 0; slot < scan.slots; ++slot) {
      const float in_top = 1 / (1 + std::exp((threshold - predicted_[slot]) / scale));
      worth[slot / block_] += std::isnan(in_top) ? 0 : in_top;
    }
  }

  void Observe(const LayerStep& at, absl::Span<const int32_t> kept) override {
    const Scan& scan = at.scan();
    double errors = 0;
    int64_t scored = 0;
    for (const int32_t j : kept) {
      for (int slot = j * block_; slot < std::min((j + 1) * block_, scan.slots); ++slot) {
        const float error = std::abs(scan.scores[slot] - Predicted(scan, slot));
        if (!std::isfinite(error)) continue;
        errors += error;
        ++scored;
        Average(scan.scores[slot] - scan.estimates[slot / kSubBlockSlots], &excess_[slot]);
      }
    }
    if (scored > 0) error_ = static_cast<float>(errors / static_cast<double>(scored));
  }

 private:
  static constexpr float kNever = std::numeric_limits<float>::infinity();

  float Predicted(const Scan& scan, int slot) const {
    const float estimate = scan.estimates[slot / kSubBlockSlots];
    return excess_[slot] == kNever ? estimate : estimate + excess_[slot];
  }

  void Average(float excess, float* average) const {
    *average = *average == kNever ? excess : decay_ * *average + (1 - decay_) * excess;
  }

  float KthBest(absl::Span<const float> scores) {
    workspace_.resize(scores.size());
    top_.resize(std::min<size_t>(topk_, scores.size()));
    trace::TopK(scores, topk_, absl::MakeSpan(workspace_), absl::MakeSpan(top_));
    float least = scores[top_.front()];
    for (const int32_t slot : top_) least = std::min(least, scores[slot]);
    return least;
  }

  int block_, topk_;
  float decay_;
  float error_ = 0;            // mean of the last step's predictions
  std::vector<float> excess_;  // [slots] score - estimate, averaged; kNever: never observed
  std::vector<float> predicted_;
  std::vector<int32_t> workspace_, top_;
};

}  // namespace

std::unique_ptr<Predictor> MakeQueryAware(const PredictorOptions& options) {
  return std::make_unique<QueryAware>(options);
}

}  // namespace spin::prediction

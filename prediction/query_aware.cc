// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/base/casts.h"
#include "prediction/predictors.h"
#include "trace/topk.h"

namespace spin::prediction {
namespace {

// Standard deviation of an error whose mean absolute value is 1, and of a logistic distribution of
// scale 1: with their ratio a logistic curve stands for the normal distribution of the error.
constexpr float kDeviation = 1.2533f, kLogisticDeviation = 1.8138f;

// e^x of x within 80 of 0, of that bound beyond, NaN as far above: to 1e-4 of itself, in a
// form that vectorises.
inline float Exp(float x) {
  x = x < 80.0f ? x : 80.0f;
  x = x > -80.0f ? x : -80.0f;
  const float biased = x * 1.44269504f + 127;  // exponent of the result, as its bits have it
  const int32_t whole = static_cast<int32_t>(biased);
  const float part = biased - static_cast<float>(whole);
  const float power =  // 2^part
      1 + part * (0.693147f + part * (0.240230f + part * (0.0554906f +
                                                          part * (0.00967f + part * 0.00133336f))));
  return absl::bit_cast<float>(whole << 23) * power;
}

// A slot's score is what its sub-block's mean key gets from the current query, plus how much more
// the slot itself got in the past (one moving average a slot, in place of V and D). A block is
// worth the top-K slots that it is expected to hold: the sum over its slots of the probability that
// the score, with the error that predictions had in the last step, is above the K-th best one.
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
    const float scale =
        std::max(error_ * kDeviation / kLogisticDeviation, std::numeric_limits<float>::min());
    for (size_t j = 0; j < worth.size(); ++j) {
      const size_t first = j * block_, end = std::min(first + block_, predicted_.size());
      float expected = 0;
#pragma omp simd reduction(+ : expected)
      for (size_t slot = first; slot < end; ++slot) {
        expected += 1 / (1 + Exp((threshold - predicted_[slot]) / scale));
      }
      worth[j] = expected;
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

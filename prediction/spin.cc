// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/predictors.h"
#include "prediction/spin_state.h"

namespace spin::prediction {
namespace {

enum class Averages { kBoth, kVertical, kDiagonal };

class Spin : public Predictor {
 public:
  Spin(const PredictorOptions& options, Averages averages)
      : state_(options.geometry, options.max_slots, options.decay), averages_(averages) {}

  void Predict(const LayerStep& at, int keep, absl::Span<float> worth) override {
    state_.Predict(at.scan().query, 1, worth);
  }

  void Observe(const LayerStep& at, absl::Span<const int32_t> kept) override {
    const float* scores = at.scan().scores.data();
    state_.Observe(at.scan().query, 1, kept, {&scores, 1});
    if (averages_ == Averages::kVertical) state_.ForgetDiagonal();
    if (averages_ == Averages::kDiagonal) state_.ForgetVertical();
  }

 private:
  SpinState state_;
  Averages averages_;
};

}  // namespace

std::unique_ptr<Predictor> MakeSpin(const PredictorOptions& options) {
  return std::make_unique<Spin>(options, Averages::kBoth);
}

std::unique_ptr<Predictor> MakeVerticalOnly(const PredictorOptions& options) {
  return std::make_unique<Spin>(options, Averages::kVertical);
}

std::unique_ptr<Predictor> MakeDiagonalOnly(const PredictorOptions& options) {
  return std::make_unique<Spin>(options, Averages::kDiagonal);
}

}  // namespace spin::prediction

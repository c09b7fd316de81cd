// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <vector>

#include "kernels/budget.h"
#include "prediction/predictors.h"
#include "prediction/spin_state.h"
#include "trace/topk.h"

namespace spin::prediction {
namespace {

// Blocks still rank by their best slot, so the blocks of the n best slots are the first few of that
// ranking; how many decides everything.
class SlotChoice : public Predictor {
 public:
  explicit SlotChoice(const PredictorOptions& options)
      : state_(options.geometry, options.max_slots, options.decay),
        block_(options.geometry.block) {}

  void Predict(const LayerStep& at, int keep, absl::Span<float> worth) override {
    const Scan& scan = at.scan();
    signal_.resize(scan.slots);
    state_.SlotSignal(scan.query, absl::MakeSpan(signal_));
    MaxPool(signal_, block_, worth);
  }

  int Keep(const LayerStep& at, double sparsity, int keep) override {
    const int slots = at.scan().slots;
    const int wanted = slots - kernels::FloorShare(sparsity, slots);
    workspace_.resize(slots);
    chosen_.resize(wanted);
    trace::TopK(signal_, wanted, absl::MakeSpan(workspace_), absl::MakeSpan(chosen_));
    int blocks = 0, last = -1;
    for (const int32_t slot : chosen_) {
      blocks += slot / block_ != last ? 1 : 0;
      last = slot / block_;
    }
    return blocks;
  }

  void Observe(const LayerStep& at, absl::Span<const int32_t> kept) override {
    const float* scores = at.scan().scores.data();
    state_.Observe(at.scan().query, 1, kept, {&scores, 1});
  }

 private:
  SpinState state_;
  int block_;
  std::vector<float> signal_;  // [slots]
  std::vector<int32_t> workspace_, chosen_;
};

}  // namespace

std::unique_ptr<Predictor> MakeSlotChoice(const PredictorOptions& options) {
  return std::make_unique<SlotChoice>(options);
}

}  // namespace spin::prediction

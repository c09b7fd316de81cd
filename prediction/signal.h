// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// How well a signal that knows everything of the past agrees with the scores that come: Pearson
// correlation over slots, and how much of the true top-K its own top-K holds. Independent of blocks
// and budgets.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/geometry.h"
#include "prediction/spin_state.h"
#include "prediction/walk.h"

namespace spin::prediction {

enum class SignalKind {
  kRandom,
  kPreviousLayer,  // not for the first layer
  kPreviousIteration,
  kPreviousIterationOffset,  // slot i as slot i - 1 was
  kSpin,                     // max(V, D), every score observed
};
inline constexpr int kSignalKinds = 5;

// As in reports: "prev_iter".
const char* SignalName(SignalKind kind);

// Means over (layer, step); NaN where none was counted.
struct SignalSummary {
  double pearson;
  double recall;
};

// Counts from step 1 on, over the slots that were there in the step before; what the top-K of all
// slots holds beyond those is never recalled.
class SignalMeter : public LayerVisitor {
 public:
  SignalMeter(const kernels::Geometry& geometry, int64_t max_slots, double decay, uint64_t seed);

  void Visit(const LayerStep& at) override;

  SignalSummary Read(SignalKind kind) const;

 private:
  struct Sum {
    double pearson = 0, recall = 0;
    int64_t count = 0;
  };
  struct Layer {
    SpinState state;
    std::array<Sum, kSignalKinds> sums;
    std::vector<float> signal;  // [slots]
    std::vector<int32_t> workspace, top;
  };

  bool FillSignal(SignalKind kind, const LayerStep& at, Layer* layer) const;
  void Compare(SignalKind kind, const Scan& scan, Layer* layer) const;

  int topk_;
  uint64_t seed_;
  std::vector<int32_t> all_blocks_;
  std::vector<Layer> layers_;
};

}  // namespace spin::prediction

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// One way to tell, before a layer is scored, which of its blocks hold top-K slots.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kernels/geometry.h"
#include "prediction/scan.h"

namespace spin::prediction {

// Predicts for one layer. Steps come in order; step 0 is observed in full and never predicted. What
// a predictor reads of `at` is what it would know: those that read more say so.
class Predictor {
 public:
  virtual ~Predictor() = default;

  // `worth` [blocks]: the higher, the sooner is a block kept; never NaN. `keep` is the budget of
  // blocks, which only oracles look at.
  virtual void Predict(const LayerStep& at, int keep, absl::Span<float> worth) = 0;

  // How many blocks to keep where the budget is `keep`. Only a predictor that chooses slots instead
  // of blocks has another answer. Asked after Predict, for the same step.
  virtual int Keep(const LayerStep& at, double sparsity, int keep) { return keep; }

  // The scores of these blocks, ascending, have come back; those of all others stay unknown.
  virtual void Observe(const LayerStep& at, absl::Span<const int32_t> kept) {}
};

// What every predictor of one trial is made with.
struct PredictorOptions {
  kernels::Geometry geometry;  // of one layer: layers is 1
  int layer;                   // its index in the trace
  int64_t max_slots;           // of the longest context
  double decay;                // alpha
  uint64_t seed;               // of whatever is random
};

// Null where it has nothing to say: the first layer has no previous one.
using MakePredictor = std::unique_ptr<Predictor> (*)(const PredictorOptions&);

// A predictor as it is named in reports.
struct NamedPredictor {
  const char* name;     // in JSON: "prev_iter"
  const char* title;    // "previous iteration"
  const char* meaning;  // one sentence
  MakePredictor make;
};

// All that are compared side by side, from the weakest to the bound. `spin` is the one that spind
// runs.
absl::Span<const NamedPredictor> Predictors();

// Spin with other orders of pooling (A1 is `spin` itself):
//   A0  chooses the best (1 - rho) N slots and keeps their blocks, however many those are
//   A2  pools the scores to blocks before it averages them, by block and by distance in blocks
absl::Span<const NamedPredictor> Poolings();

// Of all these lists, by name; null if there is none.
const NamedPredictor* FindPredictor(absl::string_view name);

}  // namespace spin::prediction

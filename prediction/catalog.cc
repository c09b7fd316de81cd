// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/predictors.h"

namespace spin::prediction {
namespace {

constexpr NamedPredictor kPredictors[] = {
    {"random", "random", "blocks in random order", MakeRandom},
    {"prev_layer", "previous layer", "the full scan of the layer before", MakePreviousLayer},
    {"prev_layer_best5", "previous layer, best of five",
     "oracle: of five layers before, the best at each budget", MakeBestPreviousLayer},
    {"prev_iter", "previous iteration", "the full scan of the step before", MakePreviousIteration},
    {"prev_iter_offset1", "previous iteration, offset 1",
     "the full scan of the step before, moved on by one slot", MakePreviousIterationOffset},
    {"v_only", "V only", "Spin's average by slot alone", MakeVerticalOnly},
    {"d_only", "D only", "Spin's average by distance alone", MakeDiagonalOnly},
    {"spin", "Spin", "both averages, from kept scores only", MakeSpin},
    {"sub_block_mean", "sub-block means",
     "the current query against mean keys of 16 slots, no history", MakeSubBlockMean},
    {"query_aware", "Spin, query-aware",
     "sub-block means, and how far each slot was above its own; counts expected top-K slots",
     MakeQueryAware},
    {"block_oracle", "block oracle", "lower bound: the blocks with the most top-K slots",
     MakeBlockOracle},
};

constexpr NamedPredictor kPoolings[] = {
    {"A0", "A0: choose slots", "the best slots' blocks, however many", MakeSlotChoice},
    {"A1", "A1: pool averages", "Spin", MakeSpin},
    {"A2", "A2: pool scores", "averages of block maxima", MakePooledAverage},
};

}  // namespace

absl::Span<const NamedPredictor> Predictors() { return kPredictors; }

absl::Span<const NamedPredictor> Poolings() { return kPoolings; }

const NamedPredictor* FindPredictor(absl::string_view name) {
  for (const auto& list : {Predictors(), Poolings()}) {
    for (const NamedPredictor& predictor : list) {
      if (predictor.name == name) return &predictor;
    }
  }
  return nullptr;
}

}  // namespace spin::prediction

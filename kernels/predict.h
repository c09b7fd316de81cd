// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/geometry.h"
#include "kernels/rows.h"
#include "kernels/state.h"

// Predict: S[j] = max over slots i of block j, and over the verifier rows that see i, of
// max(V[i], D[q - i]): the best score a slot of the block may reach (paper, equations for V and D).
//
// Reads the state, writes block scores. Deterministic; -0 may come out as +0. Unobserved blocks
// score -infinity. Rows with request == kPaddingRow are skipped; zero rows or a context of zero
// blocks are fine. The output must not overlap the slab's pages.
namespace spin::kernels {

struct PredictParams {
  Geometry geometry;
  StateView state;
  LayerRange layers;
  const Row* rows;  // [row_count]
  int32_t row_count;
  int32_t max_blocks;    // stride of block_scores; at least B of every row
  int64_t layer_stride;  // of block_scores, in elements; 0 lets layers share, one launch each
  float* block_scores;   // out: row r of layer l starts at l * layer_stride + r * max_blocks
};

void PredictCpu(const PredictParams& params);

}  // namespace spin::kernels

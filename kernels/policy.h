// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/geometry.h"

// The knobs of prediction as the kernels read them. Ratios are doubles everywhere: 0.7 of 510
// blocks keeps 153 of them, and 154 in float32.
namespace spin::kernels {

struct Policy {
  double sparsity[kMaxLayers];  // rho per layer, in [0, 1): the share of blocks to skip
  double exploration;           // gamma in [0, 1]: the share of kept blocks drawn at random
  double decay;                 // alpha in [0, 1): the weight of the past in both averages
  uint64_t seed;                // of exploration and audits; equal seeds give equal draws
  uint32_t audit_every;         // N: a step is audited with probability 1/N; 0 = never
  uint32_t pin_first_block;     // 1 keeps block 0 (attention sink) in every list
};

}  // namespace spin::kernels

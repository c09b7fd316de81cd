// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// What a list of blocks cost, summed up over steps and layers.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace spin::prediction {

// One layer. A miss is the share of the true top-K whose block was not kept.
struct LayerTally {
  std::vector<double> miss;  // [steps counted]
  int64_t kept_blocks = 0;   // really scored
  int64_t considered_blocks = 0;

  void Add(int missed, int truth, int kept, int considered) {
    miss.push_back(static_cast<double>(missed) / truth);
    kept_blocks += kept;
    considered_blocks += considered;
  }
};

// Means are over all (layer, step); p99 interpolates linearly over them. NaN where nothing counted.
struct MissSummary {
  double mean = 0;
  double p99 = 0;
  double sparsity = 0;         // realised: 1 - kept / considered blocks
  std::vector<double> layers;  // mean of each layer that has a prediction
  std::vector<double> layer_sparsity;
};

// Layers without any step counted, such as the first of "previous layer", are left out.
MissSummary Summarize(absl::Span<const LayerTally> layers);

}  // namespace spin::prediction

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "client/cli/replay/engine.h"

namespace spin::cli {

// What one layer of a step leaves behind, in memory that is made once.
class LayerBuffers {
 public:
  LayerBuffers(int max_blocks, int block, int topk)
      : kept(max_blocks),
        scores(static_cast<size_t>(max_blocks) * block),
        top_(topk),
        workspace_(scores.size()),
        block_(block) {}

  // The best K of the first `score_count` scores, as slots.
  void TakeTopK();

  LayerOutput output() const;

  std::vector<int32_t> kept;  // [max_blocks]
  std::vector<float> scores;  // [max_blocks * block]
  int kept_count = 0;
  int score_count = 0;

 private:
  std::vector<int32_t> top_;
  std::vector<int32_t> workspace_;
  int block_;
  int top_count_ = 0;
};

// Seconds between laps.
double Lap(double* last);

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Mean keys of sub-blocks of 16 slots, scored with the current query: a look at every block for a
// sixteenth of what the scan costs, as hierarchical indexers take it.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "trace/trace.h"

namespace spin::prediction {

inline constexpr int kSubBlockSlots = 16;

// Immutable after construction; any number of threads may ask. The trace must outlive it.
class SubBlockMeans {
 public:
  explicit SubBlockMeans(const trace::Trace& trace);

  // The score that each sub-block's mean key gets, [ceil(context / kSubBlockSlots)]. The mean of a
  // sub-block that is not full yet is that of its visible slots.
  void Estimate(int layer, int step, absl::Span<float> out) const;

 private:
  void AddMean(int layer, int first, int end, int lane, float* tile) const;
  const float* Tile(int layer, int sub_block) const {
    return means_.data() + TileIndex(layer, sub_block);
  }
  float* Tile(int layer, int sub_block) { return means_.data() + TileIndex(layer, sub_block); }
  size_t TileIndex(int layer, int sub_block) const {
    return (static_cast<size_t>(layer) * tiles_ + sub_block / 16) * trace_->dim * 16;
  }

  const trace::Trace* trace_;
  int sub_blocks_;            // full ones
  int tiles_;                 // of 16 sub-blocks, side by side for the vector unit
  std::vector<float> means_;  // [layers, tiles, dim, 16]
  std::vector<float> q_;      // [layers, steps, heads, dim], decoded
};

}  // namespace spin::prediction

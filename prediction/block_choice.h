// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// From the worth of blocks to the list of those to keep: the selection that spind runs, over the
// block scores of any predictor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/block_list.h"
#include "kernels/geometry.h"
#include "kernels/policy.h"
#include "kernels/state.h"

namespace spin::prediction {

// Different layers may be asked by different threads at once.
class BlockChoice {
 public:
  // Of the policy, exploration, seed and pin_first_block count. `key_hash` is that of the request's
  // key. Contexts of up to `max_slots` slots; a position is a slot.
  BlockChoice(const kernels::Geometry& geometry, int64_t max_slots, const kernels::Policy& policy,
              uint64_t key_hash = 0);

  // The list for `next_n` queries from `position` on, ascending; valid until the layer is asked
  // again. `worth` [blocks] holds no NaN.
  absl::Span<const int32_t> Choose(int layer, int64_t position, int next_n, double sparsity,
                                   absl::Span<const float> worth);

  // The sparsity that keeps exactly so many of all blocks.
  static double SparsityOf(int keep, int blocks) {
    return static_cast<double>(blocks - keep) / blocks;
  }

 private:
  kernels::Geometry geometry_;
  int32_t max_blocks_;
  kernels::Policy policy_;
  std::vector<kernels::RequestRecord> records_;  // [1]
  std::vector<kernels::ListHeader> headers_;     // [layers]
  std::vector<int32_t> blocks_;                  // [layers, max_blocks]
  std::vector<kernels::ListMask> masks_;         // [layers, MaskWords(max_blocks)]
  std::vector<uint64_t> workspace_;              // [layers, max_blocks]
};

}  // namespace spin::prediction

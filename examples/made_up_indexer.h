// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Stands for the model's indexer in example_engine: made-up keys and queries in FP8, as real ones
// are, so that what the engine scores can be recorded. A slot's score is mostly fixed for the slot
// and for its distance from the query, as in real models, with a little that changes.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

class MadeUpIndexer {
 public:
  static constexpr int kHeads = 2;
  static constexpr int kDim = 8;

  struct Query {
    std::vector<uint8_t> codes;  // [heads, dim] E4M3
    std::vector<float> values;   // the same, decoded
    std::vector<float> weights;  // [heads]
  };

  MadeUpIndexer(int layers, int slots);

  Query QueryAt(int layer, int64_t position) const;

  // sum_h w_h * relu(q_h . k)
  float Score(int layer, const Query& query, int64_t slot) const;

  // What the indexer's cache holds of the slots [first, first + count).
  absl::Span<const uint8_t> Keys(int layer, int64_t first, int64_t count) const;
  absl::Span<const float> KeyScales(int64_t count) const { return {scales_.data(), size_t(count)}; }

 private:
  size_t Index(int layer, int64_t slot) const { return (layer * scales_.size() + slot) * kDim; }

  std::vector<float> scales_;   // [slots] all 1
  std::vector<uint8_t> codes_;  // [layers, slots, dim]
  std::vector<float> values_;   // the same, decoded
};

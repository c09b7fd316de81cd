// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "spin/session.h"

namespace spin {

// A made-up indexer: the score of a slot for the query at a position. Mostly stable per slot and
// per distance, as in a real model, and often negative.
inline float ToyScore(int layer, int64_t position, int64_t slot) {
  const auto s = static_cast<double>(slot);
  const auto p = static_cast<double>(position);
  return static_cast<float>(std::sin(0.013 * s * (layer + 1)) + std::cos(0.009 * (p - s)) +
                            0.1 * std::sin(s * 3.7 + p * 1.3) - 1.0);
}

// Scores what a step asks for, as an engine would: compacted, in list order, one buffer reused from
// layer to layer.
class ToyEngine {
 public:
  ToyEngine(int layers, int block, int64_t max_slots, int max_rows, int max_next_n)
      : layers_(layers),
        block_(block),
        draft_stride_(max_slots),
        row_stride_(max_slots * max_next_n),
        buffer_(static_cast<size_t>(row_stride_ * max_rows)) {}

  // Scores one layer of all rows and hands it back.
  void ScoreLayer(Step& step, absl::Span<const StepRow> rows, int layer) {
    for (size_t r = 0; r < rows.size(); ++r) {
      const KeptBlocks kept = step.Kept(layer, static_cast<int>(r));
      for (int draft = 0; draft < rows[r].next_n; ++draft) {
        ScoreRow(kept, layer, rows[r].position + draft,
                 buffer_.data() + r * row_stride_ + draft * draft_stride_);
      }
    }
    step.PutScores(layer, {buffer_.data(), ElementType::kFloat32, row_stride_, draft_stride_});
  }

  // A whole step. Returns the lists it was given, [layer][row].
  std::vector<std::vector<std::vector<int32_t>>> RunStep(Session& session,
                                                         absl::Span<const StepRow> rows,
                                                         const EndOptions& end = {}) {
    Step step = session.BeginStep(rows);
    std::vector<std::vector<std::vector<int32_t>>> lists(layers_);
    reasons_.clear();
    for (size_t r = 0; r < rows.size(); ++r) {
      reasons_.push_back(step.Kept(0, static_cast<int>(r)).reason);
    }
    for (int layer = 0; layer < layers_; ++layer) {
      for (size_t r = 0; r < rows.size(); ++r) {
        const KeptBlocks kept = step.Kept(layer, static_cast<int>(r));
        lists[layer].emplace_back(kept.blocks.begin(), kept.blocks.end());
      }
      ScoreLayer(step, rows, layer);
    }
    step.End(end);
    return lists;
  }

  // Of the rows of the last step.
  const std::vector<Reason>& reasons() const { return reasons_; }

 private:
  void ScoreRow(const KeptBlocks& kept, int layer, int64_t position, float* out) {
    for (const int32_t block : kept.blocks) {
      const int64_t first = int64_t{block} * block_;
      for (int64_t slot = first; slot < std::min(first + block_, position + 1); ++slot) {
        *out++ = ToyScore(layer, position, slot);
      }
    }
  }

  int layers_;
  int block_;
  int64_t draft_stride_;
  int64_t row_stride_;
  std::vector<float> buffer_;
  std::vector<Reason> reasons_;
};

}  // namespace spin

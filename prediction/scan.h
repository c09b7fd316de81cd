// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// What the full scan of one layer in one decode step says: what every prediction is judged by, and
// what some of them may look at.
#pragma once

#include <cstdint>
#include <vector>

#include "prediction/sub_block_means.h"
#include "trace/scorer.h"

namespace spin::prediction {

struct Scan {
  int64_t query = 0;               // position of the query, in slots
  int slots = 0;                   // N: visible to it
  int blocks = 0;                  // B
  int truth = 0;                   // true top-K slots: min(K, N)
  std::vector<float> scores;       // [N]
  std::vector<float> block_max;    // [B] best score of each block; NaN counts as -infinity
  std::vector<int32_t> top;        // [truth] the true top-K, ascending; ties to the lower slot
  std::vector<int32_t> needed;     // [B] how many of those each block holds
  std::vector<float> estimates;    // [N / 16] scores of sub-blocks' mean keys; empty: not asked for
  std::vector<int32_t> workspace;  // of the top-K
};

// Largest score of each block of `block` slots.
void MaxPool(absl::Span<const float> scores, int block, absl::Span<float> out);

// Scans one layer in one step into `scan`, whose memory is used again. `means` may be null.
void ScanLayer(const trace::Scorer& scorer, const SubBlockMeans* means, int layer, int step,
               int topk, int block, Scan* scan);

// The last few scans of every layer, and those of the step that is under way.
class ScanWindow {
 public:
  // `depth`: how many steps are held, the newest included.
  ScanWindow(int layers, int depth)
      : layers_(layers), depth_(depth), scans_(static_cast<size_t>(layers) * depth) {}

  // Steps newest - depth + 1 to newest are there.
  const Scan& At(int layer, int step) const { return scans_[Index(layer, step)]; }
  Scan* Mutable(int layer, int step) { return &scans_[Index(layer, step)]; }

  int layers() const { return layers_; }

 private:
  size_t Index(int layer, int step) const {
    return static_cast<size_t>(step % depth_) * layers_ + layer;
  }

  int layers_, depth_;
  std::vector<Scan> scans_;
};

// One layer in one decode step. A view; valid during the visit.
struct LayerStep {
  const ScanWindow* window;
  int layer;
  int step;

  const Scan& scan() const { return window->At(layer, step); }
  const Scan& previous() const { return window->At(layer, step - 1); }       // not in step 0
  const Scan& of_layer(int other) const { return window->At(other, step); }  // of the same step
};

}  // namespace spin::prediction

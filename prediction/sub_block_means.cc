// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/sub_block_means.h"

#include <algorithm>
#include <cstddef>

#include "trace/fp8.h"

namespace spin::prediction {
namespace {

constexpr int kTile = 16;  // sub-blocks side by side, so that the loops over them vectorise

// sum_h w_h * relu(q_h . k) for kTile keys, stored [dim, kTile].
void ScoreTile(const float* keys, const float* q, const float* w, int heads, int dim, float* out) {
  std::fill_n(out, kTile, 0.0f);
  for (int h = 0; h < heads; ++h, q += dim) {
    float dot[kTile] = {};
    for (int d = 0; d < dim; ++d) {
      for (int lane = 0; lane < kTile; ++lane) dot[lane] += q[d] * keys[d * kTile + lane];
    }
    for (int lane = 0; lane < kTile; ++lane) out[lane] += w[h] * (dot[lane] > 0 ? dot[lane] : 0.0f);
  }
}

}  // namespace

SubBlockMeans::SubBlockMeans(const trace::Trace& trace)
    : trace_(&trace),
      sub_blocks_(trace.slots / kSubBlockSlots),
      tiles_((sub_blocks_ + kTile - 1) / kTile),
      means_(static_cast<size_t>(trace.layers) * tiles_ * trace.dim * kTile),
      q_(trace.q.size()) {
  std::transform(trace.q.begin(), trace.q.end(), q_.begin(),
                 [](uint8_t code) { return trace::kFp8ToFloat[code]; });
  for (int layer = 0; layer < trace.layers; ++layer) {
    for (int sub_block = 0; sub_block < sub_blocks_; ++sub_block) {
      const int first = sub_block * kSubBlockSlots;
      AddMean(layer, first, first + kSubBlockSlots, sub_block % kTile, Tile(layer, sub_block));
    }
  }
}

// Adds the mean key of slots [first, end) to one lane of a tile.
void SubBlockMeans::AddMean(int layer, int first, int end, int lane, float* tile) const {
  const int dim = trace_->dim;
  for (int slot = first; slot < end; ++slot) {
    const size_t row = static_cast<size_t>(layer) * trace_->slots + slot;
    const float share = trace_->k_scale[row] / static_cast<float>(end - first);
    for (int d = 0; d < dim; ++d) {
      tile[d * kTile + lane] += share * trace::kFp8ToFloat[trace_->k[row * dim + d]];
    }
  }
}

void SubBlockMeans::Estimate(int layer, int step, absl::Span<float> out) const {
  const size_t row = static_cast<size_t>(layer) * trace_->steps + step;
  const float* w = trace_->w.data() + row * trace_->heads;
  const float* q = q_.data() + row * trace_->heads * trace_->dim;
  const int context = trace_->Context(step);
  const int full = context / kSubBlockSlots;
  float scores[kTile];
  for (int first = 0; first < full; first += kTile) {
    ScoreTile(Tile(layer, first), q, w, trace_->heads, trace_->dim, scores);
    std::copy_n(scores, std::min(kTile, full - first), out.begin() + first);
  }
  if (full * kSubBlockSlots == context) return;
  std::vector<float> tail(static_cast<size_t>(trace_->dim) * kTile);
  AddMean(layer, full * kSubBlockSlots, context, 0, tail.data());
  ScoreTile(tail.data(), q, w, trace_->heads, trace_->dim, scores);
  out[full] = scores[0];
}

}  // namespace spin::prediction

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/scorer.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "trace/fp8.h"

namespace spin::trace {
namespace {

constexpr int CeilDiv(int a, int b) { return a / b + (a % b != 0); }

}  // namespace

// Feeds the kernel two tiles at a time, from two blocks if need be, and packs the scores that were
// asked for. Holds the two tiles after those back, so that the kernel can fetch them ahead.
class Scorer::TilePairs {
 public:
  TilePairs(const Scorer& scorer, int layer, int step, float* out) : out_(out) {
    const size_t first_tile = static_cast<size_t>(layer) * scorer.tiles_;
    const size_t row = static_cast<size_t>(layer) * scorer.steps_ + step;
    const size_t head = row * scorer.head_groups_ * kHeadGroup;
    kernel_ = scorer.kernel_.run;
    k_ = scorer.k_.data() + first_tile * scorer.dim_pairs_;
    scale_ = scorer.k_scale_.data() + first_tile;
    args_.q = scorer.q_.data() + head * 2 * scorer.dim_pairs_;
    args_.w = scorer.w_.data() + head;
    args_.dim_pairs = scorer.dim_pairs_;
    args_.head_groups = scorer.head_groups_;
  }

  // Slots [begin, end); begin is the first of a tile.
  void Add(int begin, int end) {
    for (int slot = begin; slot < end; slot += kTileSlots) {
      Push(slot / kTileSlots, std::min(kTileSlots, end - slot));
    }
  }

  // Scores what is held back; a single tile is paired with itself. Returns all that was written.
  int Finish() {
    if (count_ % 2 != 0) Push(tile_[count_ - 1], 0);
    while (count_ > 0) ScoreFront();
    return written_;
  }

 private:
  void Push(int tile, int wanted) {
    if (count_ == 4) ScoreFront();
    tile_[count_] = tile;
    wanted_[count_++] = wanted;
  }

  const KeyLanes* Keys(int tile) const { return k_ + static_cast<size_t>(tile) * args_.dim_pairs; }

  void ScoreFront() {
    for (int t = 0; t < 2; ++t) {
      args_.k[t] = Keys(tile_[t]);
      args_.scale[t] = scale_ + tile_[t];
      args_.next[t] = Keys(tile_[t + 2]);
    }
    Lanes z[2];
    kernel_(args_, z);
    for (int t = 0; t < 2; ++t) {
      std::copy_n(z[t].lane, wanted_[t], out_ + written_);
      written_ += wanted_[t];
      tile_[t] = tile_[t + 2];
      wanted_[t] = wanted_[t + 2];
    }
    count_ -= 2;
  }

  ScoreKernel kernel_;
  const KeyLanes* k_;   // of the layer
  const Lanes* scale_;  // of the layer
  float* out_;
  ScoreArgs args_;
  int tile_[4] = {};    // waiting, oldest first
  int wanted_[4] = {};  // how many scores of each
  int count_ = 0;
  int written_ = 0;
};

Scorer::Scorer(const Trace& trace, NamedScoreKernel kernel)
    : layers_(trace.layers),
      steps_(trace.steps),
      heads_(trace.heads),
      dim_(trace.dim),
      first_query_(trace.first_query),
      tiles_(CeilDiv(trace.slots, kTileSlots)),
      head_groups_(CeilDiv(trace.heads, kHeadGroup)),
      dim_pairs_(CeilDiv(trace.dim, 2)),
      k_(static_cast<size_t>(layers_) * tiles_ * dim_pairs_),
      k_scale_(static_cast<size_t>(layers_) * tiles_),
      q_(static_cast<size_t>(layers_) * steps_ * head_groups_ * 2 * dim_pairs_ * kHeadGroup),
      w_(static_cast<size_t>(layers_) * steps_ * head_groups_ * kHeadGroup),
      kernel_(kernel) {
  for (int layer = 0; layer < layers_; ++layer) {
    DecodeKeys(trace, layer);
    for (int step = 0; step < steps_; ++step) DecodeQuery(trace, layer, step);
  }
}

void Scorer::DecodeKeys(const Trace& trace, int layer) {
  for (int slot = 0; slot < trace.slots; ++slot) {
    const size_t row = static_cast<size_t>(layer) * trace.slots + slot;
    const size_t tile = static_cast<size_t>(layer) * tiles_ + slot / kTileSlots;
    const int lane = slot % kTileSlots;
    k_scale_[tile].lane[lane] = trace.k_scale[row];
    for (int d = 0; d < dim_; ++d) {
      const auto bits = std::bit_cast<uint32_t>(kFp8ToFloat[trace.k[row * dim_ + d]]);
      k_[tile * dim_pairs_ + d / 2].pair[lane] |= d % 2 == 0 ? bits >> 16 : bits;
    }
  }
}

void Scorer::DecodeQuery(const Trace& trace, int layer, int step) {
  const size_t row = static_cast<size_t>(layer) * steps_ + step;
  for (int head = 0; head < heads_; ++head) {
    const size_t group = row * head_groups_ + head / kHeadGroup;
    const size_t source = row * heads_ + head;
    const int lane = head % kHeadGroup;
    w_[group * kHeadGroup + lane] = trace.w[source];
    for (int d = 0; d < dim_; ++d) {
      q_[(group * 2 * dim_pairs_ + d) * kHeadGroup + lane] =
          kFp8ToFloat[trace.q[source * dim_ + d]];
    }
  }
}

int Scorer::ScoreBlocks(int layer, int step, absl::Span<const int32_t> blocks, int block,
                        float* out) const {
  TilePairs pairs(*this, layer, step, out);
  const int64_t context = Context(step);
  for (const int32_t j : blocks) {
    const int64_t begin = int64_t{j} * block;
    if (begin < 0 || begin >= context) continue;
    pairs.Add(static_cast<int>(begin), static_cast<int>(std::min(begin + block, context)));
  }
  return pairs.Finish();
}

int Scorer::ScoreAll(int layer, int step, float* out) const {
  TilePairs pairs(*this, layer, step, out);
  pairs.Add(0, Context(step));
  return pairs.Finish();
}

}  // namespace spin::trace

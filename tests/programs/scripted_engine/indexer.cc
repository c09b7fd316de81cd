// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/programs/scripted_engine/indexer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace spin::scripted {
namespace {

uint64_t Mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// In [0, 1), mostly small: a few values are hot.
float Hot(uint64_t a, uint64_t b) {
  const float uniform = static_cast<float>(Mix(a ^ Mix(b)) >> 40) * 0x1p-24f;
  const float squared = uniform * uniform;
  return squared * squared;
}

}  // namespace

float Indexer::Score(uint64_t request, int layer, int64_t position, int64_t slot) const {
  const uint64_t where = request + 1000003 * static_cast<uint64_t>(layer);
  if (poison_ != Poison::kNone && slot % 97 == 5) {
    if (poison_ == Poison::kNan) return std::numeric_limits<float>::quiet_NaN();
    if (poison_ == Poison::kInf) return std::numeric_limits<float>::infinity();
    return -std::numeric_limits<float>::max();
  }
  const auto distance = static_cast<uint64_t>(position / tokens_per_slot_ - slot);
  const auto now = static_cast<uint64_t>(position) << 32 | static_cast<uint64_t>(slot);
  return Hot(where, static_cast<uint64_t>(slot) / 16) + 0.5f * Hot(~where, distance / 16) +
         0.2f * Hot(where ^ 0x5555, now) - 1.0f;
}

int64_t Indexer::ScoreBlocks(uint64_t request, int layer, int64_t position,
                             absl::Span<const int32_t> blocks, float* out) const {
  const int64_t visible = VisibleSlots(position);
  int64_t count = 0;
  for (const int32_t block : blocks) {
    const int64_t first = int64_t{block} * block_slots_;
    const int64_t end = std::min(first + block_slots_, visible);
    for (int64_t slot = first; slot < end; ++slot)
      out[count++] = Score(request, layer, position, slot);
  }
  return count;
}

std::vector<int64_t> Indexer::TopSlots(absl::Span<const int32_t> blocks, const float* scores,
                                       int64_t count) const {
  const auto rank = [scores](int64_t c) {
    return std::isnan(scores[c]) ? -std::numeric_limits<float>::infinity() : scores[c];
  };
  std::vector<int64_t> best(count);
  std::iota(best.begin(), best.end(), 0);
  const int64_t k = std::min<int64_t>(topk_, count);
  std::nth_element(best.begin(), best.begin() + k, best.end(), [&rank](int64_t a, int64_t b) {
    return rank(a) > rank(b) || (rank(a) == rank(b) && a < b);
  });
  best.resize(k);
  for (int64_t& c : best) c = int64_t{blocks[c / block_slots_]} * block_slots_ + c % block_slots_;
  std::sort(best.begin(), best.end());
  return best;
}

bool Indexer::TopSlotsAreThose(uint64_t request, int layer, int64_t position,
                               absl::Span<const int32_t> blocks, const float* scores) const {
  std::vector<int32_t> all(BlocksAt(position));
  std::iota(all.begin(), all.end(), 0);
  std::vector<float> full(all.size() * block_slots_);
  const int64_t full_count = ScoreBlocks(request, layer, position, all, full.data());
  const int64_t left_out = static_cast<int64_t>(all.size() - blocks.size()) * block_slots_;
  const int64_t count = std::max<int64_t>(full_count - left_out, 0);
  return TopSlots(blocks, scores, count) == TopSlots(all, full.data(), full_count);
}

}  // namespace spin::scripted

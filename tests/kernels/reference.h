// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "kernels/audit.h"
#include "kernels/exploration.h"
#include "kernels/geometry.h"
#include "kernels/policy.h"

// The algorithm once more, from its description and by brute force: dense vectors, full sorts, one
// slot at a time. Shares no code with kernels/ but the exploration keys. What it computes is what
// every kernels::Device must compute, bit by bit.
namespace spin::kernels::reference {

inline constexpr float kCold = -std::numeric_limits<float>::infinity();

inline int64_t SlotsAt(int64_t position, const Geometry& g) {
  return (position + 1) / g.tokens_per_slot;
}

inline int32_t BlockCount(int64_t slots, const Geometry& g) {
  return static_cast<int32_t>(std::ceil(static_cast<double>(slots) / g.block));
}

// To 8 significant bits, nearest even.
inline float RoundToBf16(float value) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent;  // value = f * 2^exponent, 0.5 <= |f| < 1
  std::frexp(value, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent, -125) - 8);
  const double rounded = std::nearbyint(value / unit) * unit;
  if (std::abs(rounded) > std::numeric_limits<float>::max()) return std::copysign(-kCold, value);
  return static_cast<float>(rounded);
}

// One average after the score z. Products of two floats are exact in double, and a sum of two
// floats rounds the same by way of double: so these are three roundings to float, without FMA.
inline float Average(float old, float z, double alpha, Dtype state) {
  float next = z;
  if (old != kCold) {
    const float past = static_cast<float>(double{static_cast<float>(alpha)} * old);
    const float now = static_cast<float>(double{static_cast<float>(1 - alpha)} * z);
    next = static_cast<float>(double{past} + now);
  }
  return state == Dtype::kBF16 ? RoundToBf16(next) : next;
}

struct Budget {
  int32_t keep;
  int32_t explored;
};

inline Budget BudgetOf(int32_t blocks, int32_t pinned, int32_t next_n, const Geometry& g,
                       double rho, double gamma) {
  const auto topk = static_cast<int32_t>(std::ceil(static_cast<double>(g.topk) / g.block));
  const auto skip = static_cast<int32_t>(std::floor(rho * blocks + 1e-9));
  const int32_t one = std::min(blocks, std::max({topk, blocks - skip, pinned}));
  const auto per_draft = static_cast<int32_t>(std::ceil(blocks / 256.0));
  const int32_t keep = std::min(blocks, one + (next_n - 1) * per_draft);
  const auto explored = keep == blocks ? 0 : static_cast<int32_t>(std::floor(gamma * keep + 1e-9));
  return {keep, std::min(explored, keep - pinned)};
}

// Blocks that are always kept.
inline std::set<int32_t> PinnedBlocks(int64_t slots, int32_t next_n, const Geometry& g, bool sink) {
  std::set<int32_t> pinned;
  for (int64_t slot = std::max<int64_t>(0, slots - next_n); slot < slots; ++slot) {
    pinned.insert(static_cast<int32_t>(slot / g.block));
  }
  if (sink && slots > 0) pinned.insert(0);
  return pinned;
}

struct Kept {
  std::vector<int32_t> blocks;
  int32_t pinned = 0;
  int32_t predicted = 0;
  int32_t explored = 0;
};

// Who asks: everything the random draws depend on, beside policy and block.
struct Asker {
  uint64_t key_hash;
  int32_t layer;
  int64_t position;
  int32_t next_n;
};

inline Kept Select(const std::vector<float>& scores, const Asker& asker, const Geometry& g,
                   const Policy& policy) {
  const int64_t slots = SlotsAt(asker.position + asker.next_n - 1, g);
  const int32_t blocks = BlockCount(slots, g);
  std::set<int32_t> kept = PinnedBlocks(slots, asker.next_n, g, policy.pin_first_block != 0);
  const auto pinned = static_cast<int32_t>(kept.size());
  const Budget budget =
      BudgetOf(blocks, pinned, asker.next_n, g, policy.sparsity[asker.layer], policy.exploration);

  const auto left = [&] {  // in ascending order
    std::vector<int32_t> out;
    for (int32_t block = 0; block < blocks; ++block) {
      if (kept.count(block) == 0) out.push_back(block);
    }
    return out;
  };
  const int32_t predicted = budget.keep - pinned - budget.explored;
  std::vector<int32_t> rest = left();
  std::stable_sort(rest.begin(), rest.end(),
                   [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
  kept.insert(rest.begin(), rest.begin() + predicted);

  const auto key = [&](int32_t block) {
    return DrawBlocks(policy.seed, asker.key_hash, asker.position, asker.layer, block / 8)
        .Key(block % 8);
  };
  rest = left();
  std::stable_sort(rest.begin(), rest.end(), [&](int32_t a, int32_t b) { return key(a) < key(b); });
  kept.insert(rest.begin(), rest.begin() + budget.explored);
  return {{kept.begin(), kept.end()}, pinned, predicted, budget.explored};
}

// The true top K of one verifier row.
inline std::vector<int64_t> TrueTopk(const std::vector<float>& scores, const Geometry& g) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::isnan(scores[b]) ? !std::isnan(scores[a]) : scores[a] > scores[b];
  });
  order.resize(std::min<size_t>(order.size(), g.topk));
  return order;
}

// How many of them there are, and lie outside the kept blocks.
inline AuditResult Audit(const std::vector<float>& scores, const std::vector<int32_t>& kept,
                         const Geometry& g) {
  const std::vector<int64_t> order = TrueTopk(scores, g);
  const std::set<int32_t> listed(kept.begin(), kept.end());
  const auto missed = std::count_if(order.begin(), order.end(), [&](int64_t slot) {
    return listed.count(static_cast<int32_t>(slot / g.block)) == 0;
  });
  return {static_cast<int32_t>(order.size()), static_cast<int32_t>(missed)};
}

// The rank of each block: pinned ones first, then by score, ties to the lower block.
inline std::vector<int32_t> Ranks(const std::vector<float>& scores, int64_t position,
                                  int32_t next_n, const Geometry& g, bool sink) {
  const std::set<int32_t> pinned = PinnedBlocks(SlotsAt(position + next_n - 1, g), next_n, g, sink);
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    if (pinned.count(a) != pinned.count(b)) return pinned.count(a) > pinned.count(b);
    return pinned.count(a) == 0 && scores[a] > scores[b];
  });
  std::vector<int32_t> ranks(order.size());
  for (size_t rank = 0; rank < order.size(); ++rank)
    ranks[order[rank]] = static_cast<int32_t>(rank);
  return ranks;
}

// S of every block that the last of the verifier rows sees.
inline std::vector<float> BlockScores(const std::vector<float>& v, const std::vector<float>& d,
                                      int64_t position, int32_t next_n, const Geometry& g) {
  std::vector<float> best(BlockCount(SlotsAt(position + next_n - 1, g), g), kCold);
  for (int64_t p = position; p < position + next_n; ++p) {
    const int64_t query = p / g.tokens_per_slot;
    for (int64_t i = 0; i < SlotsAt(p, g); ++i) {
      best[i / g.block] = std::max({best[i / g.block], v[i], d[query - i]});
    }
  }
  return best;
}

// Both averages of one layer of one request.
class LayerModel {
 public:
  LayerModel(const Geometry& geometry, bool zero_init)
      : g_(geometry), initial_(zero_init ? 0.0f : kCold) {}

  std::vector<float> Predict(int64_t position, int32_t next_n) const {
    const int64_t size = (position + next_n) / g_.tokens_per_slot + 1;
    return BlockScores(V(size), D(size), position, next_n, g_);
  }

  // One verifier row. Element c of `scores` belongs to slot blocks[c / b] * b + c % b.
  void Observe(int64_t position, const std::vector<int32_t>& blocks, const float* scores,
               double alpha) {
    const int64_t query = position / g_.tokens_per_slot;
    for (size_t c = 0; c < blocks.size() * g_.block; ++c) {
      const int64_t slot = int64_t{blocks[c / g_.block]} * g_.block + c % g_.block;
      if (slot >= SlotsAt(position, g_)) continue;
      const bool v_entered = Enter(v_, slot, scores[c], alpha);
      const bool d_entered = Enter(d_, query - slot, scores[c], alpha);
      ++scored_;
      ignored_ += !v_entered || !d_entered;
    }
  }

  std::vector<float> V(size_t size) const { return Padded(v_, size); }
  std::vector<float> D(size_t size) const { return Padded(d_, size); }
  uint64_t scored() const { return scored_; }
  uint64_t ignored() const { return ignored_; }

 private:
  std::vector<float> Padded(std::vector<float> average, size_t size) const {
    average.resize(size, initial_);
    return average;
  }
  bool Enter(std::vector<float>& average, int64_t i, float z, double alpha) {
    if (i >= static_cast<int64_t>(average.size())) average.resize(i + 1, initial_);
    const float next = Average(average[i], z, alpha, g_.state);
    if (std::isfinite(next)) average[i] = next;
    return std::isfinite(next);
  }

  Geometry g_;
  float initial_;
  std::vector<float> v_;  // by slot
  std::vector<float> d_;  // by distance
  uint64_t scored_ = 0;
  uint64_t ignored_ = 0;
};

}  // namespace spin::kernels::reference

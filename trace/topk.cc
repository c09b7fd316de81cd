// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Two passes over the scores and a radix select over a few candidates. A cheap lower bound of the
// k-th largest score leaves little more than k candidates; their k-th largest is the threshold of
// the second pass. Compiled with -O3, which vectorises the loops over all scores.

#include "trace/topk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>

namespace spin::trace {
namespace {

constexpr int kDigitBits = 11;
constexpr int kBins = 1 << kDigitBits;
constexpr size_t kChunk = 32;       // scores passed over at once
constexpr size_t kMinGroups = 256;  // of the bound; fewer would make its loop short

// An integer that orders as the score does: negative floats have their magnitude bits flipped.
int32_t Key(float score) {
  const int32_t bits = std::bit_cast<int32_t>(score + 0.0f);  // -0 becomes +0
  const int32_t ordered = bits ^ ((bits >> 31) & INT32_MAX);
  return score == score ? ordered : INT32_MIN;  // a NaN; -infinity is above it
}

// 0 to kBins - 1, ascending with the key: the digit that starts at bit `shift`.
uint32_t Digit(int32_t key, int shift) {
  return ((static_cast<uint32_t>(key) ^ 0x80000000u) >> shift) & (kBins - 1);
}

// The bin of the k-th largest key and its 1-based rank in there.
struct Place {
  uint32_t digit;
  int rank;
};

Place Locate(absl::Span<const int32_t> keys, int k, int shift) {
  std::array<int32_t, kBins> counts{};
  for (const int32_t key : keys) ++counts[Digit(key, shift)];
  uint32_t digit = kBins - 1;
  while (counts[digit] < k) k -= counts[digit--];
  return {digit, k};
}

// The k-th largest key, and how many keys equal to it are among the k largest.
struct Threshold {
  int32_t key;
  int ties;
};

// Needs 1 <= k <= keys.size(). Overwrites keys: each round keeps those of one bin.
Threshold Select(absl::Span<int32_t> keys, int k) {
  for (int shift = 32 - kDigitBits;; shift = std::max(0, shift - kDigitBits)) {
    const Place place = Locate(keys, k, shift);
    k = place.rank;
    size_t left = 0;
    for (const int32_t key : keys) {
      keys[left] = key;
      left += Digit(key, shift) == place.digit;
    }
    keys = keys.subspan(0, left);
    if (shift == 0) return {keys[0], k};
  }
}

// A key that at least k scores reach, close to the k-th largest: the k-th largest maximum of twice
// as many groups, since each maximum is the key of another score. Groups are strided, to part
// neighbours, which score alike. Needs k <= scores.size() <= maxima.size().
int32_t LowerBound(absl::Span<const float> scores, int k, absl::Span<int32_t> maxima) {
  const size_t groups = std::min(std::max(2 * static_cast<size_t>(k), kMinGroups), scores.size());
  int32_t* maximum = maxima.data();
  std::fill_n(maximum, groups, INT32_MIN);
  for (size_t row = 0; row < scores.size(); row += groups) {
    const float* score = scores.data() + row;
    const size_t width = std::min(groups, scores.size() - row);
    for (size_t g = 0; g < width; ++g) maximum[g] = std::max(maximum[g], Key(score[g]));
  }
  return Select(maxima.subspan(0, groups), k).key;
}

bool AnyReaches(int32_t bound, const float* score) {
  int any = 0;
  for (size_t i = 0; i < kChunk; ++i) any |= Key(score[i]) >= bound;
  return any != 0;
}

// Calls visit(index, key) for every score of each chunk in which one reaches `bound`.
template <typename Visit>
void ForEachNear(int32_t bound, absl::Span<const float> scores, Visit visit) {
  for (size_t begin = 0; begin < scores.size(); begin += kChunk) {
    const size_t end = std::min(begin + kChunk, scores.size());
    if (end - begin == kChunk && !AnyReaches(bound, scores.data() + begin)) continue;
    for (size_t i = begin; i < end; ++i) visit(static_cast<int32_t>(i), Key(scores[i]));
  }
}

// The two loops below write one element too many rather than branch on each score. The workspace
// has room: after i scores at most i elements are used.

absl::Span<int32_t> Candidates(int32_t bound, absl::Span<const float> scores, int32_t* keys) {
  size_t count = 0;
  ForEachNear(bound, scores, [&](int32_t, int32_t key) {
    keys[count] = key;
    count += key >= bound;
  });
  return {keys, count};
}

void Indices(Threshold threshold, absl::Span<const float> scores, int32_t* indices) {
  size_t count = 0;
  ForEachNear(threshold.key, scores, [&](int32_t index, int32_t key) {
    const bool tie = key == threshold.key && threshold.ties > 0;
    indices[count] = index;
    count += key > threshold.key || tie;
    threshold.ties -= tie;
  });
}

}  // namespace

int TopK(absl::Span<const float> scores, int k, absl::Span<int32_t> workspace,
         absl::Span<int32_t> top) {
  k = static_cast<int>(std::min(static_cast<int64_t>(scores.size()), int64_t{k}));
  if (k <= 0) return 0;
  assert(workspace.size() >= scores.size() && top.size() >= static_cast<size_t>(k));
  const bool worth_it = scores.size() / 4 >= static_cast<size_t>(k);
  const int32_t bound = worth_it ? LowerBound(scores, k, workspace) : INT32_MIN;
  const Threshold threshold = Select(Candidates(bound, scores, workspace.data()), k);
  Indices(threshold, scores, workspace.data());
  std::copy_n(workspace.begin(), k, top.begin());
  return k;
}

}  // namespace spin::trace

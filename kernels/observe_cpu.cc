// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/observe.h"

#include <algorithm>

#include "kernels/internal/count.h"
#include "kernels/internal/sound_list.h"
#include "kernels/internal/state_run.h"

namespace spin::kernels {
namespace {

// The rule of ema.h for one entry. Returns 1 if the result is not finite, and then leaves the entry
// as it was.
template <typename T>
SPIN_ALWAYS_INLINE int32_t UpdateEntry(T& entry, float score, float share, float past) {
  const float old = ToFloat(entry);
  const float moved = past * old + share;  // compiled without FMA
  const float next = old == kUnobserved ? score : moved;
  const float size = next < 0 ? -next : next;
  const bool finite = size <= kLargest<T>;  // of `next`: rounding to bf16 makes numbers of some NaN
  entry = FromFloat<T>(finite ? next : old);
  return finite ? 0 : 1;
}

// Observes a run; returns how many scores did not enter.
template <typename T, typename S>
SPIN_ALWAYS_INLINE int64_t UpdateRun(const internal::StateRun<T>& run, const S* scores,
                                     EmaWeights weights) {
  T* __restrict v = run.v;
  T* __restrict d = run.d;
  int32_t ignored = 0;
#pragma omp simd reduction(+ : ignored)
  for (int64_t k = 0; k < run.slots; ++k) {
    const float score = ToFloat(scores[k]);
    const float share = weights.now * score;
    ignored += UpdateEntry(v[k], score, share, weights.past) |
               UpdateEntry(d[k], score, share, weights.past);
  }
  return ignored;
}

// One verifier row: the list of blocks, or null for all of them, and its scores.
template <typename S>
struct Scored {
  const int32_t* kept;
  int32_t count;  // blocks that were scored
  const S* scores;
};

// How many list entries from `j` on are neighbours: their slots, and their scores, are one piece.
SPIN_ALWAYS_INLINE int32_t Consecutive(const int32_t* kept, int32_t j, int32_t count) {
  int32_t end = j + 1;
  while (end < count && kept[end] == kept[end - 1] + 1) ++end;
  return end - j;
}

// Asks for the state of the blocks that come a little after the next `blocks` from `j` on. The
// state of one layer rarely is in the cache when its turn comes, and the runs are too short for the
// hardware to see a pattern.
template <typename T, typename S>
SPIN_ALWAYS_INLINE void PrefetchAhead(const ObserveParams& p, const RequestRecord& record,
                                      int32_t layer, int64_t query, const Scored<S>& scored,
                                      int32_t j, int32_t blocks) {
  constexpr int32_t kAhead = 6;  // blocks
  const int64_t block = p.geometry.block;
  const int32_t end = std::min(j + blocks + kAhead, scored.count);
  for (int32_t next = j + kAhead; next < end; ++next) {
    const int64_t slot = scored.kept[next] * block;
    if (slot > query) return;  // a draft row sees less than the list
    internal::Prefetch(internal::RunAt<T>(p.state, record, p.geometry, layer, slot,
                                          std::min(slot + block, query + 1), query));
  }
}

template <typename T, typename S>
SPIN_ALWAYS_INLINE void ObserveVerifierRow(const ObserveParams& p, const RequestRecord& record,
                                           int32_t layer, int64_t position,
                                           const Scored<S>& scored) {
  const Geometry& g = p.geometry;
  const int64_t query = QuerySlot(position, g.tokens_per_slot);
  const int64_t visible = VisibleSlots(position, g.tokens_per_slot);
  int64_t seen = 0;
  int64_t ignored = 0;
  for (int32_t j = 0; j < scored.count;) {
    const int32_t blocks = scored.kept ? Consecutive(scored.kept, j, scored.count) : scored.count;
    if (scored.kept) PrefetchAhead<T>(p, record, layer, query, scored, j, blocks);
    const int64_t first = int64_t{scored.kept ? scored.kept[j] : j} * g.block;
    const int64_t end = std::min(first + int64_t{blocks} * g.block, visible);
    const S* scores = scored.scores + int64_t{j} * g.block;
    for (int64_t slot = first; slot < end;) {
      const auto run = internal::RunAt<T>(p.state, record, g, layer, slot, end, query);
      ignored += UpdateRun<T, S>(run, scores + (slot - first), p.weights);
      slot += run.slots;
      seen += run.slots;
    }
    j += blocks;
  }
  internal::Count(p.counters[layer].scored_slots, seen);
  internal::Count(p.counters[layer].nonfinite_scores, ignored);
}

template <typename T, typename S>
SPIN_ALWAYS_INLINE void ObserveRow(const ObserveParams& p, const ScoredRow& row, int32_t layer,
                                   const int32_t* kept, int32_t count) {
  const RequestRecord& record = p.state.records[row.request];
  const S* scores = static_cast<const S*>(p.scores.data) + layer * p.scores.layer_stride +
                    row.score_row * p.scores.row_stride;
  for (uint32_t draft = 0; draft < row.accepted; ++draft) {
    ObserveVerifierRow<T, S>(p, record, layer, row.position + draft,
                             {kept, count, scores + draft * p.scores.draft_stride});
  }
}

using ObserveRowFn = void (*)(const ObserveParams&, const ScoredRow&, int32_t, const int32_t*,
                              int32_t);

SPIN_CPU_CLONES void ObserveF32F32(const ObserveParams& p, const ScoredRow& row, int32_t layer,
                                   const int32_t* kept, int32_t count) {
  ObserveRow<float, float>(p, row, layer, kept, count);
}
SPIN_CPU_CLONES void ObserveF32Bf16(const ObserveParams& p, const ScoredRow& row, int32_t layer,
                                    const int32_t* kept, int32_t count) {
  ObserveRow<float, Bf16>(p, row, layer, kept, count);
}
SPIN_CPU_CLONES void ObserveBf16F32(const ObserveParams& p, const ScoredRow& row, int32_t layer,
                                    const int32_t* kept, int32_t count) {
  ObserveRow<Bf16, float>(p, row, layer, kept, count);
}
SPIN_CPU_CLONES void ObserveBf16Bf16(const ObserveParams& p, const ScoredRow& row, int32_t layer,
                                     const int32_t* kept, int32_t count) {
  ObserveRow<Bf16, Bf16>(p, row, layer, kept, count);
}

ObserveRowFn RowFunction(Dtype state, Dtype scores) {
  if (state == Dtype::kF32) return scores == Dtype::kF32 ? ObserveF32F32 : ObserveF32Bf16;
  return scores == Dtype::kF32 ? ObserveBf16F32 : ObserveBf16Bf16;
}

void CountKept(const ListHeader& header, LayerCounters& counters) {
  internal::Count(counters.considered_blocks, header.blocks);
  internal::Count(counters.predicted_blocks, header.predicted);
  internal::Count(counters.explored_blocks, header.explored);
  internal::Count(counters.pinned_blocks, header.pinned);
}

void CountFull(int32_t blocks, LayerCounters& counters) {
  internal::Count(counters.considered_blocks, blocks);
  internal::Count(counters.full_blocks, blocks);
}

void ObserveLayer(const ObserveParams& p, ObserveRowFn observe_row, int32_t layer) {
  for (int32_t r = 0; r < p.row_count; ++r) {
    const ScoredRow& row = p.rows[r];
    if (row.request == kPaddingRow) continue;
    if (row.coverage == Coverage::kAll) {
      const int32_t blocks = ExtentOf(row.position, row.next_n, p.geometry).blocks;
      observe_row(p, row, layer, nullptr, blocks);
      CountFull(blocks, p.counters[layer]);
      continue;
    }
    const ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
    const uint32_t generation = p.state.records[row.request].generation;
    if (!SameStamp(header.stamp, {p.epoch, generation, row.next_n, row.position})) continue;
    const int32_t* kept = p.lists.Blocks(row.buffer, row.request, layer);
    const int32_t blocks = ExtentOf(row.position, row.next_n, p.geometry).blocks;
    if (!internal::IsSoundList(kept, header.count, blocks)) continue;
    observe_row(p, row, layer, kept, header.count);
    CountKept(header, p.counters[layer]);
  }
}

}  // namespace

void ObserveCpu(const ObserveParams& params) {
  const ObserveParams p = BoundToObserve(params);
  const ObserveRowFn observe_row = RowFunction(p.geometry.state, p.scores.dtype);
  for (int32_t layer = p.layers.first; layer < p.layers.first + p.layers.count; ++layer) {
    ObserveLayer(p, observe_row, layer);
  }
}

}  // namespace spin::kernels

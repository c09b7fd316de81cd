// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/audit.h"

#include <algorithm>
#include <numeric>

#include "kernels/ema.h"
#include "kernels/internal/count.h"
#include "kernels/internal/order_key.h"
#include "kernels/internal/pinned_blocks.h"
#include "kernels/internal/sound_list.h"
#include "kernels/predict.h"

namespace spin::kernels {
namespace {

using internal::OrderKey;

// The K-th largest key of a row, and how many slots with exactly that key belong to the top K.
struct Threshold {
  uint32_t key;
  int64_t ties;
};

// Radix selection, one byte at a time from the top: needs no memory but a histogram.
template <typename S>
Threshold KthLargest(const S* scores, int64_t slots, int64_t k) {
  uint32_t prefix = 0;
  uint32_t mask = 0;
  int64_t wanted = k;
  for (int shift = 24; shift >= 0; shift -= 8) {
    int64_t histogram[256] = {};
    for (int64_t i = 0; i < slots; ++i) {
      const uint32_t key = OrderKey(ToFloat(scores[i]));
      if ((key & mask) == prefix) ++histogram[(key >> shift) & 0xff];
    }
    uint32_t digit = 255;
    for (; histogram[digit] < wanted; --digit) wanted -= histogram[digit];
    prefix |= digit << shift;
    mask |= 0xffu << shift;
  }
  return {prefix, wanted};
}

// Calls use(block) for each of the true top-K slots, in ascending order; returns how many.
template <typename S, typename Use>
int32_t ForEachTopkBlock(const S* scores, int64_t slots, const Geometry& g, const Use& use) {
  const int64_t k = std::min<int64_t>(g.topk, slots);
  if (k == 0) return 0;
  const Threshold threshold = KthLargest(scores, slots, k);
  int64_t ties = threshold.ties;
  for (int64_t i = 0; i < slots; ++i) {
    const uint32_t key = OrderKey(ToFloat(scores[i]));
    if (key < threshold.key || (key == threshold.key && ties-- <= 0)) continue;
    use(static_cast<int32_t>(i / g.block));
  }
  return static_cast<int32_t>(k);
}

// ranks[block] for all blocks of the row's context, in the workspace.
const int32_t* RankBlocks(const AuditParams& p, const ScoredRow& row, int32_t layer,
                          const ListHeader& header) {
  const RowExtent extent = ExtentOf(row.position, row.next_n, p.geometry);
  auto* const scores = reinterpret_cast<float*>(p.workspace);
  auto* const order = reinterpret_cast<int32_t*>(scores + p.lists.max_blocks);
  int32_t* const ranks = order + p.lists.max_blocks;
  const Row predicted = {row.request, row.next_n, row.position, row.buffer, 0};
  PredictCpu({.geometry = p.geometry,
              .state = p.state,
              .layers = {layer, 1},
              .rows = &predicted,
              .row_count = 1,
              .max_blocks = p.lists.max_blocks,
              .layer_stride = 0,
              .block_scores = scores});
  const internal::PinnedBlocks pinned = internal::PinnedOf(extent, header);
  std::iota(order, order + extent.blocks, 0);
  std::sort(order, order + extent.blocks, [&](int32_t a, int32_t b) {
    if (pinned.Has(a) != pinned.Has(b)) return pinned.Has(a);
    const uint32_t key_a = pinned.Has(a) ? 0 : OrderKey(scores[a]);
    const uint32_t key_b = pinned.Has(b) ? 0 : OrderKey(scores[b]);
    return key_a != key_b ? key_a > key_b : a < b;
  });
  for (int32_t rank = 0; rank < extent.blocks; ++rank) ranks[order[rank]] = rank;
  return ranks;
}

template <typename S>
AuditResult AuditRow(const AuditParams& p, const ScoredRow& row, int32_t layer,
                     const ListHeader& header) {
  const int32_t* kept = p.lists.Blocks(row.buffer, row.request, layer);
  const S* scores = static_cast<const S*>(p.scores.data) + layer * p.scores.layer_stride +
                    row.score_row * p.scores.row_stride;
  const int32_t blocks = ExtentOf(row.position, row.next_n, p.geometry).blocks;
  const int32_t* const ranks = p.audits ? RankBlocks(p, row, layer, header) : nullptr;
  AuditResult sum = {0, 0};
  for (uint32_t draft = 0; draft < row.accepted; ++draft) {
    const int64_t slots = VisibleSlots(row.position + draft, p.geometry.tokens_per_slot);
    int32_t next = 0;  // first list entry at or past the block
    sum.topk += ForEachTopkBlock(
        scores + draft * p.scores.draft_stride, slots, p.geometry, [&](int32_t block) {
          while (next < header.count && kept[next] < block) ++next;
          if (next == header.count || kept[next] != block) ++sum.missed;
          if (ranks) internal::Count(p.audits[layer].rank_slots[RankBin(ranks[block], blocks)], 1);
        });
  }
  return sum;
}

void CountRow(const AuditParams& p, const ScoredRow& row, int32_t layer, const ListHeader& header,
              const AuditResult& result) {
  internal::Count(p.counters[layer].audited_rows, row.accepted);
  internal::Count(p.counters[layer].audit_topk_slots, result.topk);
  internal::Count(p.counters[layer].audit_missed_slots, result.missed);
  if (!p.audits || result.topk == 0) return;
  LayerAudits& audits = p.audits[layer];
  internal::Count(audits.blocks, ExtentOf(row.position, row.next_n, p.geometry).blocks);
  internal::Count(audits.list_blocks, header.count);
  internal::Count(audits.miss_rows[MissBucket(result.missed, result.topk)], 1);
}

bool HasList(const AuditParams& p, const ScoredRow& row, const ListHeader& header, int32_t layer) {
  const uint32_t generation = p.state.records[row.request].generation;
  return row.coverage == Coverage::kAll &&
         SameStamp(header.stamp, {p.epoch, generation, row.next_n, row.position}) &&
         internal::IsSoundList(p.lists.Blocks(row.buffer, row.request, layer), header.count,
                               ExtentOf(row.position, row.next_n, p.geometry).blocks);
}

void AuditLayer(const AuditParams& p, int32_t layer) {
  for (int32_t r = 0; r < p.row_count; ++r) {
    const ScoredRow& row = p.rows[r];
    AuditResult result = {0, 0};
    if (row.request != kPaddingRow) {
      const ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
      if (HasList(p, row, header, layer)) {
        result = p.scores.dtype == Dtype::kF32 ? AuditRow<float>(p, row, layer, header)
                                               : AuditRow<Bf16>(p, row, layer, header);
        CountRow(p, row, layer, header, result);
      }
    }
    if (p.results) p.results[int64_t{layer} * p.row_count + r] = result;
  }
}

}  // namespace

void AuditCpu(const AuditParams& params) {
  const AuditParams p = BoundToAudit(params);
  for (int32_t layer = p.layers.first; layer < p.layers.first + p.layers.count; ++layer) {
    AuditLayer(p, layer);
  }
}

}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/internal/cuda_rows.cuh"
#include "kernels/observe.h"

// What both forms of Observe share: the rule of one entry, whether a row is observed at all, and
// what is counted of it.
namespace spin::kernels::internal {

// The rule of ema.h (compiled without FMA): what the entry becomes. Sets `ignored` if the result is
// not finite and the entry stays.
template <typename T>
__device__ inline T NextEntry(T entry, float score, float share, float past, bool& ignored) {
  const float old = ToFloat(entry);
  const float moved = past * old + share;
  const float next = old == kUnobserved ? score : moved;
  const bool finite = fabsf(next) <= kLargest<T>;
  ignored |= !finite;
  return finite ? FromFloat<T>(next) : entry;
}

// The verifier row `draft` of a row, if it enters the state.
struct Observed {
  bool taken;           // the row is to be counted: its list, if it needs one, is the right one
  bool any;             // ... and this verifier row enters
  int32_t query;        // q
  int32_t slots;        // N
  ScoredBlocks blocks;  // that were scored
};

// What a verifier row looks at.
struct Reach {
  int32_t query;   // q
  int32_t slots;   // N
  uint32_t token;  // its place in slot q
};

__device__ inline Reach ReachOf(const ObserveParams& p, const ScoredRow& row, uint32_t draft) {
  const int64_t position = row.position + draft;
  const auto per_slot = static_cast<uint32_t>(p.geometry.tokens_per_slot);
  const auto query = static_cast<uint32_t>(QuerySlot(position, p.geometry.tokens_per_slot));
  // VisibleSlots, without another division.
  const uint32_t token = static_cast<uint32_t>(position) - query * per_slot;
  const auto slot = static_cast<int32_t>(query);
  return {slot, slot + (token + 1 == per_slot ? 1 : 0), token};
}

__device__ inline ScoredBlocks ScoredBlocksOf(const ObserveParams& p, const ScoredRow& row,
                                              int32_t layer) {
  const bool all = row.coverage == Coverage::kAll;
  return {all ? nullptr : p.lists.Masks(row.buffer, row.request, layer), p.max_blocks};
}

// Loads first and decides then, without a branch: the loads wait for one another no more than they
// must.
__device__ inline Observed ObservedRow(const ObserveParams& p, const ScoredRow& at, int32_t layer,
                                       uint32_t draft) {
  Observed out = {};
  const ScoredRow row = at;
  if (row.request == kPaddingRow) return out;
  const ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
  const bool all = row.coverage == Coverage::kAll;
  const bool stamped = HasStamp(header, p.epoch, p.state.records[row.request].generation, row);
  const Reach reach = ReachOf(p, row, draft);
  out.taken = all | stamped;
  out.any = out.taken & (draft < row.accepted);
  out.blocks = ScoredBlocksOf(p, row, layer);
  out.query = reach.query;
  out.slots = reach.slots;
  return out;
}

// How many scores the verifier row has: whole blocks, but for the last ones of the context, of
// which it sees only a part, or nothing if it is not the last verifier row.
__device__ inline int64_t ScoredSlots(const Observed& observed, int32_t count, int32_t blocks,
                                      int32_t block) {
  if (!observed.blocks.masks) return observed.slots;
  int64_t slots = int64_t{count} * block;
  for (int32_t j = blocks - 1; j >= 0 && (j + 1) * block > observed.slots; --j) {
    const int32_t seen = observed.slots - j * block;
    if (observed.blocks.Place(j) >= 0) slots -= block - (seen > 0 ? seen : 0);
  }
  return slots;
}

// For one thread of each (layer, row).
__device__ inline void CountObserved(const ObserveParams& p, const ScoredRow& row, int32_t layer,
                                     uint32_t draft, const Observed& observed) {
  LayerCounters& counters = p.counters[layer];
  const int32_t blocks = ExtentOf(row.position, row.next_n, p.geometry).blocks;
  const bool all = row.coverage == Coverage::kAll;
  const ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
  if (observed.any) {
    CountOn(counters.scored_slots,
            ScoredSlots(observed, all ? blocks : header.count, blocks, p.geometry.block));
  }
  if (draft > 0) return;
  CountOn(counters.considered_blocks, blocks);
  if (all) {
    CountOn(counters.full_blocks, blocks);
  } else {
    CountOn(counters.predicted_blocks, header.predicted);
    CountOn(counters.explored_blocks, header.explored);
    CountOn(counters.pinned_blocks, header.pinned);
  }
}

}  // namespace spin::kernels::internal

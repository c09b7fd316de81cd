// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/geometry.h"

// Where the two moving averages of a request lie. A request owns a list of pages; page p holds, for
// every layer, V of the slots and D of the distances [p * kPageSlots, (p + 1) * kPageSlots):
//
//   page = [layers][ V: kPageSlots elements | D: kPageSlots elements | PageSummary, see below ]
//
// D is stored *reversed* inside a page, so that slots in ascending order meet both averages in
// ascending addresses. A request grows by appending pages; nothing is ever moved.
//
// An entry that was never observed is -infinity: indexer scores are often negative, so 0 would rank
// unseen slots above seen ones. (The option zero_init fills with 0, the paper's literal line.)
namespace spin::kernels {

inline constexpr uint32_t kPageOffsetUnit = 256;  // bytes; page offsets are counted in these

// One request as the kernels find it in the slab. Written by the owner of the slab only, before the
// request is first named in a step; generation 0 means the record is free.
struct RequestRecord {
  uint32_t generation;
  uint32_t page_count;
  uint64_t key_hash;          // 64-bit hash of the client's request key; feeds exploration
  uint32_t pages[kMaxPages];  // offsets from the slab's base, in units of kPageOffsetUnit
};

// What CUDA's Observe leaves for the prediction that follows it, so that blocks that were not
// scored need not be read again: V of such a block has not moved, so its maximum is kept, and the
// maxima of D come out of the same pass over the scores. A cache of what V and D say; the CPU does
// without. Numbers are bf16 bits. With query = q of the last observed verifier row,
//
//   S[j] for q      = max(inner[j], last[j])         S[j] for q + 1 = max(inner[j], last[j - 1])
//
// because a step moves D by one slot against the blocks. A row with drafts looks at several queries
// in a row: it takes what each of them needs, and for q + i with i > 1 also D at i slots before the
// block.
struct BlockSummary {
  uint16_t inner;  // max of V over the block and of D over all its slots but the last
  uint16_t last;   // D at the block's last slot
};

struct PageSummary {
  BlockSummary blocks[64];
  uint16_t v_max[64];  // max of V over each block
  int64_t query;       // of page 0: the q that all pages' `blocks` of this layer belong to ...
  int64_t slots;       // ... and the slots that were visible there. Fresh pages: see SummaryServes
  int64_t settled;     // of page 0: the same query once a Select has seen it; see SummaryStands
  uint8_t reserved[104];
};
static_assert(sizeof(PageSummary) == 512);

// Pages of this geometry have a PageSummary for each layer; others have none.
SPIN_HOST_DEVICE constexpr bool HasSummary(const Geometry& geometry) {
  return geometry.state == Dtype::kBF16 && geometry.block == 64;
}

// Bytes of one layer in a page.
SPIN_HOST_DEVICE constexpr int64_t LayerBytes(const Geometry& geometry) {
  return 2 * int64_t{kPageSlots} * DtypeBytes(geometry.state) +
         (HasSummary(geometry) ? int64_t{sizeof(PageSummary)} : 0);
}

SPIN_HOST_DEVICE constexpr int64_t PageBytes(const Geometry& geometry) {
  return geometry.layers * LayerBytes(geometry);
}

// Whether a summary made at (query, slots) serves a row, whose first query is `row_query`: that
// must be the same or the next, and its free blocks, those before the tail, must have been visible.
// A fresh page serves nobody: filled with -infinity its query is negative, with 0 it has no slots.
SPIN_HOST_DEVICE constexpr bool SummaryServes(int64_t query, int64_t slots, int64_t row_query,
                                              const RowExtent& extent) {
  return query >= 0 && (row_query == query || row_query == query + 1) &&
         int64_t{extent.blocks - extent.tail_blocks} * 64 <= slots;
}

// Whether the summaries say of a block what an observation at `query` finds that does not score it:
// then D lies under the blocks as it did, as in all steps of the tokens of one slot but the first.
// The last block, of which more may be visible, is always scored. Observe asks while it writes
// `query` itself, so it asks `settled`: it takes that away where it is another query, and only
// Select, in a launch of its own, sets it. (What an earlier launch of the same Observe left for the
// same query stands without being asked for.)
SPIN_HOST_DEVICE constexpr bool SummaryStands(int64_t settled, int64_t query) {
  return settled == query;
}
inline constexpr int64_t kUnsettled = -1;

SPIN_HOST_DEVICE constexpr int32_t PagesFor(int64_t slots) {
  return static_cast<int32_t>((slots + kPageSlots - 1) / kPageSlots);
}

// All state of a launch: the slab and the records of one session in it.
struct StateView {
  std::byte* slab;               // base address of the slab in this process
  const RequestRecord* records;  // [max_requests]
};

// Byte offset, from the start of its page, of V at `slot`.
SPIN_HOST_DEVICE constexpr int64_t VOffset(const Geometry& g, int32_t layer, int64_t slot) {
  return layer * LayerBytes(g) + slot % kPageSlots * DtypeBytes(g.state);
}

// Byte offset, from the start of its page, of D at `distance` = q - slot.
SPIN_HOST_DEVICE constexpr int64_t DOffset(const Geometry& g, int32_t layer, int64_t distance) {
  return layer * LayerBytes(g) + (2 * kPageSlots - 1 - distance % kPageSlots) * DtypeBytes(g.state);
}

// Byte offset, from the start of a page, of the summary of a layer; only if HasSummary.
SPIN_HOST_DEVICE constexpr int64_t SummaryOffset(const Geometry& g, int32_t layer) {
  return layer * LayerBytes(g) + 2 * int64_t{kPageSlots} * DtypeBytes(g.state);
}

// Address of page `page` of the request at `record`.
SPIN_HOST_DEVICE inline std::byte* PageAt(const StateView& state, const RequestRecord& record,
                                          int64_t page) {
  return state.slab + uint64_t{record.pages[page]} * kPageOffsetUnit;
}

}  // namespace spin::kernels

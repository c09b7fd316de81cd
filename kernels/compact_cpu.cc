// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/compact.h"

#include "kernels/internal/sound_list.h"

namespace spin::kernels {
namespace {

// The row's list, or null if all blocks are to be kept. `listed`: whose list was made, or null: any
// list serves.
const int32_t* ServingList(const CompactParams& p, const Row& row, const Row* listed, int32_t layer,
                           int32_t blocks, int32_t* count) {
  *count = blocks;
  if (row.request == kPaddingRow || blocks == 0) return nullptr;
  const ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
  const int32_t* kept = p.lists.Blocks(row.buffer, row.request, layer);
  if ((listed == nullptr || internal::SameList(*listed, row)) &&
      internal::IsListOf(header, p.epoch, row, blocks) &&
      internal::IsSoundList(kept, header.count, blocks) && kept[header.count - 1] == blocks - 1) {
    *count = header.count;
    return kept;
  }
  if (p.unserved) ++*p.unserved;
  return nullptr;
}

void CompactRow(const CompactParams& p, const Row* listed, int32_t layer, int32_t r) {
  const Geometry& g = p.geometry;
  const Row& row = p.rows[r];
  const int64_t at = int64_t{layer} * p.row_count + r;
  const int32_t blocks =
      row.next_n == 0 ? 0 : ExtentOf(row.position, static_cast<int32_t>(row.next_n), g).blocks;
  int32_t count = 0;
  const int32_t* kept = ServingList(p, row, listed, layer, blocks, &count);
  const int32_t* table = p.block_table + int64_t{r} * p.table_stride;
  for (int32_t j = 0; j < count; ++j) {
    const int32_t block = kept ? kept[j] : j;
    p.kept_table[at * p.table_stride + j] = table[block];
    if (p.kept_blocks) p.kept_blocks[at * p.table_stride + j] = block;
  }
  for (int32_t draft = 0; draft < p.next_n_stride; ++draft) {
    const bool real = draft < static_cast<int32_t>(row.next_n);
    const int64_t slots = VisibleSlots(row.position + draft, g.tokens_per_slot);
    p.kept_slots[at * p.next_n_stride + draft] =
        real ? static_cast<int32_t>(slots - int64_t{blocks - count} * g.block) : 0;
  }
}

// `listed` [row_count], or null: see ServingList.
void CompactRows(const CompactParams& params, const Row* listed) {
  const CompactParams p = BoundLists(params);
  for (int32_t layer = p.layers.first; layer < p.layers.first + p.layers.count; ++layer) {
    for (int32_t r = 0; r < p.row_count; ++r) {
      CompactRow(p, listed != nullptr ? listed + r : nullptr, layer, r);
    }
  }
}

void RemapRow(const RemapParams& p, const Row& row, int32_t layer, int32_t r) {
  const int32_t block = p.geometry.block;
  const int64_t at = int64_t{layer} * p.row_count + r;
  const int32_t* kept = p.kept_blocks + at * p.table_stride;
  int32_t* topk = p.topk + at * p.next_n_stride * p.topk_stride;
  for (int64_t k = 0; k < int64_t{row.next_n} * p.topk_stride; ++k) {
    if (topk[k] < 0 || topk[k] / block >= p.table_stride) continue;
    topk[k] = kept[topk[k] / block] * block + topk[k] % block;
  }
}

}  // namespace

void CompactCpu(const CompactParams& params) { CompactRows(params, nullptr); }

void SelectAndCompactCpu(const SelectParams& select, const CompactParams& compact) {
  SelectCpu(select);
  CompactRows(compact, select.rows);
}

void RemapCpu(const RemapParams& p) {
  for (int32_t layer = p.layers.first; layer < p.layers.first + p.layers.count; ++layer) {
    for (int32_t r = 0; r < p.row_count; ++r) RemapRow(p, p.rows[r], layer, r);
  }
}

}  // namespace spin::kernels

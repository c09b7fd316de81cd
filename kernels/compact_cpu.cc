// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/compact.h"

namespace spin::kernels {
namespace {

void CompactRow(const CompactParams& p, const Row& row, int32_t layer, int32_t r) {
  const Geometry& g = p.geometry;
  const ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
  const int32_t* kept = p.lists.Blocks(row.buffer, row.request, layer);
  const int64_t at = int64_t{layer} * p.row_count + r;
  const int32_t* table = p.block_table + int64_t{r} * p.table_stride;
  for (int32_t j = 0; j < header.count; ++j) {
    p.kept_table[at * p.table_stride + j] = table[kept[j]];
  }
  const int32_t dropped = header.blocks - header.count;
  for (int32_t draft = 0; draft < kMaxNextN; ++draft) {
    const bool real = draft < static_cast<int32_t>(row.next_n);
    const int64_t slots = VisibleSlots(row.position + draft, g.tokens_per_slot);
    p.kept_slots[at * kMaxNextN + draft] =
        real ? static_cast<int32_t>(slots - int64_t{dropped} * g.block) : 0;
  }
}

void RemapRow(const RemapParams& p, const Row& row, int32_t layer, int32_t r) {
  const int32_t block = p.geometry.block;
  const int32_t* kept = p.lists.Blocks(row.buffer, row.request, layer);
  const int64_t at = (int64_t{layer} * p.row_count + r) * kMaxNextN * p.topk_stride;
  for (int64_t k = 0; k < int64_t{row.next_n} * p.topk_stride; ++k) {
    int32_t& index = p.topk[at + k];
    if (index >= 0) index = kept[index / block] * block + index % block;
  }
}

}  // namespace

void CompactCpu(const CompactParams& p) {
  for (int32_t layer = p.layers.first; layer < p.layers.first + p.layers.count; ++layer) {
    for (int32_t r = 0; r < p.row_count; ++r) {
      if (p.rows[r].request != kPaddingRow) CompactRow(p, p.rows[r], layer, r);
    }
  }
}

void RemapCpu(const RemapParams& p) {
  for (int32_t layer = p.layers.first; layer < p.layers.first + p.layers.count; ++layer) {
    for (int32_t r = 0; r < p.row_count; ++r) {
      if (p.rows[r].request != kPaddingRow) RemapRow(p, p.rows[r], layer, r);
    }
  }
}

}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/block_list.h"
#include "kernels/geometry.h"
#include "kernels/rows.h"

// Compact: turns block lists into what a stock paged scoring kernel takes, and its answer back.
//
//   table'[j] = table[kept[j]],  len' = len - b * (B - m)        position = kept[c / b] * b + c % b
//
// Scores computed through table' are bitwise those of the full scan. The last, partial block of the
// context is always kept and last, so every element of the compacted row but its end is a whole
// block.
namespace spin::kernels {

// The lists must be those of the rows' step: whoever launches this has checked their stamps.
struct CompactParams {
  Geometry geometry;
  LayerRange layers;
  const Row* rows;  // [row_count]
  int32_t row_count;
  ListTable lists;
  const int32_t* block_table;  // [row_count][table_stride] physical block of each logical block
  int32_t table_stride;
  int32_t* kept_table;  // out [geometry.layers][row_count][table_stride]
  int32_t* kept_slots;  // out [geometry.layers][row_count][kMaxNextN] length of each verifier row
};

// Table entries past the list are left as they were; lengths of verifier rows past next_n are 0.
void CompactCpu(const CompactParams& params);

struct RemapParams {
  Geometry geometry;
  LayerRange layers;
  const Row* rows;  // [row_count]
  int32_t row_count;
  ListTable lists;
  int32_t topk_stride;  // entries per verifier row
  int32_t* topk;  // in/out [geometry.layers][row_count][kMaxNextN][topk_stride]: compacted index
                  // to slot; negative entries (padding) stay as they are
};

void RemapCpu(const RemapParams& params);

}  // namespace spin::kernels

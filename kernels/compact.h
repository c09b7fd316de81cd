// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/binding.h"
#include "kernels/block_list.h"
#include "kernels/geometry.h"
#include "kernels/rows.h"
#include "kernels/select.h"

// Compact: turns block lists into what a stock paged scoring kernel takes, and its answer back.
//
//   table'[j] = table[kept[j]],  len' = len - b * (B - m)        position = kept[c / b] * b + c % b
//
// Scores computed through table' are bitwise those of the full scan. The last, partial block of the
// context is always kept and last, so every element of the compacted row but its end is a whole
// block.
//
// A list is used only if it serves: it carries the stamp (epoch, generation, position, next_n) of
// the row and is ascending within the context. A row whose list does not serve, and a row with
// request == kPaddingRow, keeps all blocks: its table and lengths are those of the full scan. A row
// with next_n == 0 has no context; only its lengths are written, as 0.
namespace spin::kernels {

struct CompactParams {
  Geometry geometry;
  LayerRange layers;
  const Row* rows;  // [row_count]
  int32_t row_count;
  uint64_t epoch;
  ListTable lists;
  const int32_t* block_table;  // [row_count][table_stride] physical block of each logical block
  int32_t table_stride;        // at least B of every row
  int32_t next_n_stride;       // verifier rows in kept_slots, at least next_n of every row
  int32_t* kept_table;         // out [geometry.layers][row_count][table_stride]
  int32_t* kept_slots;   // out [geometry.layers][row_count][next_n_stride]: N' of each verifier row
  int32_t* kept_blocks;  // out [geometry.layers][row_count][table_stride], for Remap; or null
  int32_t* unserved;     // counts rows of layers whose list did not serve; or null
  const Binding* binding;  // or null: see binding.h
};

// Table entries past the list are left as they were; lengths of verifier rows past next_n are 0.
void CompactCpu(const CompactParams& params);

// SelectAndCompact: Select and, of the same rows, Compact in one launch, for lists that are made at
// the beginning of the step that uses them. The result is that of the one after the other.
//
// Both sides agree in geometry, layers, row_count, epoch, lists and binding; either may have
// padding rows. A padding row of `compact` keeps all blocks, also where a list is made for its
// index: so an audited row is scored in full and compared with its list. A row of `compact` that is
// not the row of `select` at the same index (request, next_n, position and buffer) keeps all blocks
// too and counts in `unserved`, whatever list it may have. A GPU starts on the rows of both as
// early as Select does on its own. Nobody may read the lists before the launch has ended: their
// stamps are not written last here.
void SelectAndCompactCpu(const SelectParams& select, const CompactParams& compact);

// Works on what Compact wrote alone: nothing that happens to the lists meanwhile can mislead it.
struct RemapParams {
  Geometry geometry;
  LayerRange layers;
  const Row* rows;  // [row_count]
  int32_t row_count;
  const int32_t* kept_blocks;  // [geometry.layers][row_count][table_stride]
  int32_t table_stride;
  int32_t next_n_stride;  // verifier rows of a row in topk
  int32_t topk_stride;    // entries per verifier row
  int32_t* topk;  // in/out [geometry.layers][row_count][next_n_stride][topk_stride]: compacted
                  // index to slot; entries stay as they are if negative (padding) or past the table
};

void RemapCpu(const RemapParams& params);

}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

#include "kernels/binding.h"
#include "kernels/block_list.h"
#include "kernels/geometry.h"
#include "kernels/policy.h"
#include "kernels/rows.h"
#include "kernels/state.h"

// Select: the block list of every (layer, row) from its block scores.
//
//   kept = pinned blocks, then the best by score, then the random others; exactly m of them,
//   ascending.
//
// Ties go to the lower block index; the random ones are those with the smallest (exploration key,
// index) among the blocks left. Writes list and stamped header into the row's buffer, the stamp
// last. Where B = 0 the list is empty. Deterministic in (policy, key hash, position, scores).
//
// A GPU starts on rows, policy, records and binding while the kernel before this one on the stream
// ends: they are written by copies, or by a kernel before that one.
namespace spin::kernels {

struct SelectParams {
  Geometry geometry;
  StateView state;  // records, and what to predict from; a GPU notes in it what it has seen
  LayerRange layers;
  const Row* rows;  // [row_count]
  int32_t row_count;
  int32_t max_blocks;         // stride of block_scores; at least B of every row
  int64_t layer_stride;       // of block_scores, in elements
  const float* block_scores;  // as Predict wrote them; never NaN. Null: what Predict would write
  const Policy* policy;       // readable by the device
  uint64_t epoch;             // goes into the stamps
  ListTable lists;            // out
  std::byte* workspace;       // Device::SelectWorkspaceBytes, 16-byte aligned
  const Binding* binding;     // or null: see binding.h
};

constexpr int64_t SelectWorkspaceBytesCpu(int32_t max_blocks) { return 8 * int64_t{max_blocks}; }

void SelectCpu(const SelectParams& params);

}  // namespace spin::kernels

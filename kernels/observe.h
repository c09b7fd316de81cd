// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/binding.h"
#include "kernels/block_list.h"
#include "kernels/counters.h"
#include "kernels/ema.h"
#include "kernels/geometry.h"
#include "kernels/rows.h"
#include "kernels/state.h"

// Observe: scores that came back enter both moving averages,
//
//   V[i] = a V[i] + c z[i],   D[q - i] = a D[q - i] + c z[i]     for every scored slot i
//
// by the rule of ema.h. Only the first `accepted` verifier rows of a row enter, in order: this is
// how drafts are committed after the verdict. NaN and Inf never enter; they are counted. Counts the
// blocks of each row by source. A row with Coverage::kKept whose list carries another stamp than
// (epoch, generation, position, next_n) is skipped whole. So is, on the CPU, one whose list leads
// outside the context; a GPU leaves out the blocks that do. Rows of one launch must name different
// requests.
//
// A GPU looks rows, records and binding up while the kernel before this one on the stream ends:
// they are written by copies, or by a kernel before that one. That kernel may still drop rows (make
// them kPaddingRow).
namespace spin::kernels {

struct ObserveParams {
  Geometry geometry;
  StateView state;
  LayerRange layers;
  const ScoredRow* rows;  // [row_count]
  int32_t row_count;
  int32_t max_next_n;  // at least next_n of every row
  int32_t max_blocks;  // at least B of every row
  uint64_t epoch;
  ListTable lists;  // read for rows with Coverage::kKept
  ScoreView scores;
  EmaWeights weights;
  LayerCounters* counters;  // [geometry.layers]
  const Binding* binding;   // or null: see binding.h
};

void ObserveCpu(const ObserveParams& params);

}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/geometry.h"

// What a step is about. Rows are arrays in memory that the device can read: a captured CUDA graph
// launches the same kernels for every step and finds the step's rows here.
namespace spin::kernels {

inline constexpr uint32_t kPaddingRow = UINT32_MAX;  // a row to skip

// One request in one decode step, to predict for.
struct Row {
  uint32_t request;     // index into StateView::records, or kPaddingRow
  uint32_t next_n;      // 1 to kMaxNextN verifier rows, at token positions position .. + next_n - 1
  int64_t position;     // token position of the first verifier row
  uint32_t buffer;      // 0 or 1: which of the request's two list buffers
  uint32_t generation;  // of the request, as whoever uses its list knows it; Select asks the record
};

// Which blocks the scores of a row cover.
enum class Coverage : uint32_t {
  kAll = 0,   // every block, in order: row element c is slot c
  kKept = 1,  // the kept blocks only, compacted: element c is slot kept[c / b] * b + c % b
};

// One request whose scores have come back.
struct ScoredRow {
  uint32_t request;   // index into StateView::records, or kPaddingRow
  uint32_t next_n;    // verifier rows that were scored; the list was made for this many
  int64_t position;   // token position of the first verifier row
  uint32_t accepted;  // of those, the first `accepted` enter the state, in order; 0 to next_n
  uint32_t buffer;    // the list buffer that holds the list of this row
  Coverage coverage;
  uint32_t score_row;  // index of the row in the score tensor
};

// Scores of one launch: element c of verifier row d of row r of layer l is
// data[l * layer_stride + r * row_stride + d * draft_stride + c]; strides in elements.
struct ScoreView {
  const void* data;
  Dtype dtype;
  int64_t layer_stride;
  int64_t row_stride;
  int64_t draft_stride;
};

// The layers of a launch: all of them at the end of a step, or one right after it was scored.
struct LayerRange {
  int32_t first;
  int32_t count;
};

}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/stage.h"

#include <algorithm>

namespace spin::kernels {
namespace {

template <typename To, typename From>
void CopyRow(const ScoreView& from, const ScoreView& to, int64_t from_offset, int64_t to_offset,
             int64_t count) {
  const From* const in = static_cast<const From*>(from.data) + from_offset;
  To* const out = static_cast<To*>(const_cast<void*>(to.data)) + to_offset;
  for (int64_t c = 0; c < count; ++c) out[c] = StagedScore<To>(in[c]);
}

using CopyRowFn = void (*)(const ScoreView&, const ScoreView&, int64_t, int64_t, int64_t);

CopyRowFn FunctionFor(Dtype from, Dtype to) {
  if (from == Dtype::kF32) return to == Dtype::kF32 ? CopyRow<float, float> : CopyRow<Bf16, float>;
  return to == Dtype::kF32 ? CopyRow<float, Bf16> : CopyRow<Bf16, Bf16>;
}

int64_t OffsetOf(const ScoreView& scores, int32_t layer, const ScoredRow& row, uint32_t draft) {
  return layer * scores.layer_stride + row.score_row * scores.row_stride +
         draft * scores.draft_stride;
}

}  // namespace

void StageCpu(const StageParams& p) {
  ScoreView staged = p.staged;
  if (p.binding) staged.data = p.binding->staging;
  if (staged.data == nullptr) return;
  const CopyRowFn copy_row = FunctionFor(p.scores.dtype, staged.dtype);
  for (int32_t layer = p.layers.first; layer < p.layers.first + p.layers.count; ++layer) {
    for (int32_t r = 0; r < p.row_count; ++r) {
      const ScoredRow& row = p.rows[r];
      if (row.request == kPaddingRow) continue;
      for (uint32_t draft = 0; draft < row.next_n; ++draft) {
        const int64_t kept =
            p.kept_slots[(int64_t{layer} * p.row_count + row.score_row) * p.next_n_stride + draft];
        copy_row(p.scores, staged, OffsetOf(p.scores, layer, row, draft),
                 OffsetOf(staged, layer, row, draft), std::clamp<int64_t>(kept, 0, p.max_slots));
      }
    }
  }
}

}  // namespace spin::kernels

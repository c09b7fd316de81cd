// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/predict.h"

#include <algorithm>

#include "kernels/ema.h"
#include "kernels/internal/state_run.h"

namespace spin::kernels {
namespace {

// max over `count` slots of max(V, D). The reduction is order-independent, so it may be vectorised.
template <typename T>
SPIN_ALWAYS_INLINE float MaxOf(const T* v, const T* d, int64_t count) {
  float best = kUnobserved;
#pragma omp simd reduction(max : best)
  for (int64_t k = 0; k < count; ++k) {
    const float vertical = ToFloat(v[k]);
    const float diagonal = ToFloat(d[k]);
    const float either = vertical > diagonal ? vertical : diagonal;
    best = either > best ? either : best;
  }
  return best;
}

// Raises the scores of the blocks that a run touches.
template <typename T>
SPIN_ALWAYS_INLINE void RaiseBlocks(const internal::StateRun<T>& run, int64_t first_slot,
                                    int32_t block, float* scores) {
  for (int64_t done = 0; done < run.slots;) {
    const int64_t slot = first_slot + done;
    const int64_t count = std::min(block - slot % block, run.slots - done);
    float& score = scores[slot / block];
    score = std::max(score, MaxOf(run.v + done, run.d + done, count));
    done += count;
  }
}

template <typename T>
SPIN_ALWAYS_INLINE void PredictRow(const PredictParams& p, const Row& row, int32_t layer,
                                   float* out) {
  const Geometry& g = p.geometry;
  const RequestRecord& record = p.state.records[row.request];
  std::fill_n(out, ExtentOf(row.position, row.next_n, g).blocks, kUnobserved);
  for (uint32_t draft = 0; draft < row.next_n; ++draft) {
    const int64_t position = row.position + draft;
    const int64_t query = QuerySlot(position, g.tokens_per_slot);
    const int64_t end = VisibleSlots(position, g.tokens_per_slot);
    for (int64_t slot = 0; slot < end;) {
      const auto run = internal::RunAt<T>(p.state, record, g, layer, slot, end, query);
      RaiseBlocks(run, slot, g.block, out);
      slot += run.slots;
    }
  }
}

SPIN_CPU_CLONES void PredictRowF32(const PredictParams& p, const Row& row, int32_t layer,
                                   float* out) {
  PredictRow<float>(p, row, layer, out);
}

SPIN_CPU_CLONES void PredictRowBf16(const PredictParams& p, const Row& row, int32_t layer,
                                    float* out) {
  PredictRow<Bf16>(p, row, layer, out);
}

}  // namespace

void PredictCpu(const PredictParams& p) {
  const auto predict_row = p.geometry.state == Dtype::kF32 ? PredictRowF32 : PredictRowBf16;
  for (int32_t layer = p.layers.first; layer < p.layers.first + p.layers.count; ++layer) {
    for (int32_t r = 0; r < p.row_count; ++r) {
      if (p.rows[r].request == kPaddingRow) continue;
      predict_row(p, p.rows[r], layer,
                  p.block_scores + layer * p.layer_stride + int64_t{r} * p.max_blocks);
    }
  }
}

}  // namespace spin::kernels

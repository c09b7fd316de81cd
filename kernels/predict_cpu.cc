// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/predict.h"

#include <algorithm>

#include "kernels/ema.h"
#include "kernels/internal/state_run.h"

namespace spin::kernels {
namespace {

// max over the run of max(V, D). The reduction is order-independent, so it may be vectorised.
template <typename T>
SPIN_ALWAYS_INLINE float RunMax(const internal::StateRun<T>& run) {
  float best = kUnobserved;
#pragma omp simd reduction(max : best)
  for (int64_t k = 0; k < run.slots; ++k) {
    const float v = ToFloat(run.v[k]);
    const float d = ToFloat(run.d[k]);
    const float either = v > d ? v : d;
    best = either > best ? either : best;
  }
  return best;
}

template <typename T>
SPIN_ALWAYS_INLINE float BlockScore(const PredictParams& p, const RequestRecord& record,
                                    const Row& row, int32_t layer, int32_t block) {
  const Geometry& g = p.geometry;
  float best = kUnobserved;
  for (uint32_t draft = 0; draft < row.next_n; ++draft) {
    const int64_t position = row.position + draft;
    const int64_t query = QuerySlot(position, g.tokens_per_slot);
    const int64_t end = std::min((block + int64_t{1}) * g.block,
                                 VisibleSlots(position, g.tokens_per_slot));
    for (int64_t slot = int64_t{block} * g.block; slot < end;) {
      const auto run = internal::RunAt<T>(p.state, record, g, layer, slot, end, query);
      best = std::max(best, RunMax(run));
      slot += run.slots;
    }
  }
  return best;
}

template <typename T>
SPIN_ALWAYS_INLINE void PredictRow(const PredictParams& p, const Row& row, int32_t layer,
                                   float* out) {
  const RequestRecord& record = p.state.records[row.request];
  const int32_t blocks = ExtentOf(row.position, row.next_n, p.geometry).blocks;
  for (int32_t block = 0; block < blocks; ++block) {
    out[block] = BlockScore<T>(p, record, row, layer, block);
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
                  p.block_scores + (int64_t{layer} * p.row_count + r) * p.max_blocks);
    }
  }
}

}  // namespace spin::kernels

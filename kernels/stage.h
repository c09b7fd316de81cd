// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/binding.h"
#include "kernels/ema.h"
#include "kernels/geometry.h"
#include "kernels/rows.h"

// Stage: copies the scores of a step into a staging area, for whoever observes them later and
// elsewhere. Only what was scored: as many elements of each verifier row as Compact wrote for it.
// Where the two types differ, fp32 rounds to nearest even and bf16 widens; any NaN becomes some
// NaN.
namespace spin::kernels {

struct StageParams {
  Geometry geometry;
  LayerRange layers;
  const ScoredRow* rows;  // [row_count]; kPaddingRow: nothing of this row is copied
  int32_t row_count;
  const int32_t* kept_slots;  // [geometry.layers][row_count][next_n_stride] as Compact wrote it
  int32_t next_n_stride;
  int64_t max_slots;  // of a verifier row; more is not copied, whatever kept_slots says
  ScoreView scores;
  // out: ScoreView::data is memory to write. With a binding its address comes from there; null:
  // nothing is copied.
  ScoreView staged;
  const Binding* binding;  // or null: see binding.h
};

// Element c of the copy, by the rule above.
template <typename To, typename From>
SPIN_HOST_DEVICE inline To StagedScore(From score) {
  const float value = ToFloat(score);
  return FromFloat<To>(value);
}
template <>
SPIN_HOST_DEVICE inline Bf16 StagedScore<Bf16, float>(float score) {
  return score == score ? FromFloat<Bf16>(score) : Bf16{0x7fc0};
}

void StageCpu(const StageParams& params);

}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/staging.h"

#include <algorithm>
#include <cstring>

#include "client/cpp/element_type.h"
#include "kernels/stage.h"

namespace spin::internal {
namespace {

template <typename To, typename From>
void Convert(const void* from, void* to, int64_t count) {
  const auto* in = static_cast<const From*>(from);
  auto* out = static_cast<To*>(to);
  for (int64_t i = 0; i < count; ++i) out[i] = kernels::StagedScore<To>(in[i]);
}

void CopyScores(const void* from, kernels::Dtype from_type, void* to, kernels::Dtype to_type,
                int64_t count) {
  if (from_type == to_type) {
    std::memcpy(to, from, static_cast<size_t>(count * kernels::DtypeBytes(to_type)));
  } else if (to_type == kernels::Dtype::kF32) {
    Convert<float, kernels::Bf16>(from, to, count);
  } else {
    Convert<kernels::Bf16, float>(from, to, count);
  }
}

}  // namespace

void StageLayer(const StepState& step, int layer, const Scores& scores) {
  const dataplane::SessionView& view = step.session->view();
  const kernels::Geometry& geometry = view.shape.geometry;
  const kernels::Dtype type = DtypeOf(scores.type);
  for (int r = 0; r < step.row_count; ++r) {
    const StepRowState& row = step.rows[r];
    if (!row.observe) continue;
    const int32_t dropped = row.sparse() ? row.blocks - row.counts[layer] : 0;
    for (uint32_t draft = 0; draft < row.next_n; ++draft) {
      const int64_t visible = kernels::VisibleSlots(row.position + draft, geometry.tokens_per_slot);
      const int64_t count = std::max<int64_t>(visible - int64_t{dropped} * geometry.block, 0);
      const int64_t offset = r * scores.row_stride + draft * scores.draft_stride;
      CopyScores(static_cast<const std::byte*>(scores.data) + offset * kernels::DtypeBytes(type),
                 type, view.StagedRow(layer, r, static_cast<int32_t>(draft)), view.shape.scores,
                 count);
    }
  }
}

}  // namespace spin::internal

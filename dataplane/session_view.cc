// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/session_view.h"

namespace spin::dataplane {
namespace {

template <typename T>
T* At(std::byte* slab, uint64_t offset) {
  return reinterpret_cast<T*>(slab + offset);
}

}  // namespace

SessionView ViewOf(std::byte* slab, uint64_t epoch, const SessionShape& shape,
                   const SessionLayout& layout) {
  SessionView view = {};
  view.shape = shape;
  view.epoch = epoch;
  view.slab = slab;
  view.records = At<kernels::RequestRecord>(slab, layout.records);
  view.counters = At<kernels::LayerCounters>(slab, layout.counters);
  view.audits = At<kernels::LayerAudits>(slab, layout.audits);
  view.timeline = At<Timeline>(slab, layout.timeline);
  view.lists = {At<kernels::ListHeader>(slab, layout.headers),
                At<int32_t>(slab, layout.lists),
                At<kernels::ListMask>(slab, layout.masks),
                shape.max_requests,
                shape.geometry.layers,
                shape.max_blocks()};
  view.staging = shape.staging ? slab + layout.staging : nullptr;
  view.staging_stride = static_cast<int64_t>(layout.staging_stride);
  return view;
}

kernels::ScoreView SessionView::staged_scores() const {
  const int64_t row = shape.max_next_n * staging_stride;
  return {staging, shape.scores, shape.max_requests * row, row, staging_stride};
}

std::byte* SessionView::StagedRow(int32_t layer, int32_t row, int32_t draft) const {
  const kernels::ScoreView scores = staged_scores();
  return staging +
         (layer * scores.layer_stride + row * scores.row_stride + draft * scores.draft_stride) *
             kernels::DtypeBytes(shape.scores);
}

}  // namespace spin::dataplane

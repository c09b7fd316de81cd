// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/step_runner.h"

#include <algorithm>

namespace spin::dataplane {

// Select runs layer by layer, Audit over all layers; never both at a time.
size_t StepRunner::WorkspaceWords(const kernels::Device& device, const SessionView& view) {
  const int32_t rows = view.shape.max_requests;
  const int32_t blocks = view.lists.max_blocks;
  const int64_t bytes =
      std::max(device.SelectWorkspaceBytes(1, rows, blocks),
               device.AuditWorkspaceBytes(view.shape.geometry.layers, rows, blocks));
  return static_cast<size_t>(bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

absl::Status StepRunner::Audit(absl::Span<const kernels::ScoredRow> rows,
                               const kernels::ScoreView& scores, kernels::LayerRange layers,
                               kernels::Stream stream) {
  if (rows.empty()) return absl::OkStatus();
  return device_->Audit({.geometry = view_.shape.geometry,
                         .state = view_.state(),
                         .layers = layers,
                         .rows = rows.data(),
                         .row_count = static_cast<int32_t>(rows.size()),
                         .epoch = view_.epoch,
                         .lists = view_.lists,
                         .scores = scores,
                         .counters = view_.counters,
                         .audits = view_.audits,
                         .workspace = workspace(),
                         .results = nullptr},
                        stream);
}

absl::Status StepRunner::Observe(absl::Span<const kernels::ScoredRow> rows,
                                 const kernels::ScoreView& scores, kernels::LayerRange layers,
                                 double decay, kernels::Stream stream) {
  if (rows.empty()) return absl::OkStatus();
  return device_->Observe({.geometry = view_.shape.geometry,
                           .state = view_.state(),
                           .layers = layers,
                           .rows = rows.data(),
                           .row_count = static_cast<int32_t>(rows.size()),
                           .max_next_n = view_.shape.max_next_n,
                           .max_blocks = view_.lists.max_blocks,
                           .epoch = view_.epoch,
                           .lists = view_.lists,
                           .scores = scores,
                           .weights = kernels::WeightsOf(decay),
                           .counters = view_.counters},
                          stream);
}

absl::Status StepRunner::Predict(absl::Span<const kernels::Row> rows, const kernels::Policy& policy,
                                 kernels::LayerRange layers, kernels::Stream stream) {
  if (rows.empty()) return absl::OkStatus();
  for (int32_t layer = layers.first; layer < layers.first + layers.count; ++layer) {
    absl::Status status = PredictLayer(rows, policy, layer, stream);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status StepRunner::PredictLayer(absl::Span<const kernels::Row> rows,
                                      const kernels::Policy& policy, int32_t layer,
                                      kernels::Stream stream) {
  return device_->Select({.geometry = view_.shape.geometry,
                          .state = view_.state(),
                          .layers = {layer, 1},
                          .rows = rows.data(),
                          .row_count = static_cast<int32_t>(rows.size()),
                          .max_blocks = view_.lists.max_blocks,
                          .layer_stride = 0,
                          .block_scores = nullptr,
                          .policy = &policy,
                          .epoch = view_.epoch,
                          .lists = view_.lists,
                          .workspace = workspace()},
                         stream);
}

}  // namespace spin::dataplane

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/step_runner.h"

#include <algorithm>

namespace spin::dataplane {

StepRunner::Scratch StepRunner::ScratchAt(std::byte* base, const kernels::Device& device,
                                          const SessionShape& shape) {
  int64_t at = 0;
  const auto take = [&](int64_t bytes) {
    std::byte* const piece = base + at;
    at += (bytes + 255) / 256 * 256;
    return piece;
  };
  const int64_t rows = shape.max_requests;
  Scratch scratch;
  scratch.audited = reinterpret_cast<kernels::ScoredRow*>(take(rows * sizeof(kernels::ScoredRow)));
  scratch.scored = reinterpret_cast<kernels::ScoredRow*>(take(rows * sizeof(kernels::ScoredRow)));
  scratch.next = reinterpret_cast<kernels::Row*>(take(rows * sizeof(kernels::Row)));
  scratch.policy = reinterpret_cast<kernels::Policy*>(take(sizeof(kernels::Policy)));
  // Select and Audit follow one another on the stream.
  const int32_t layers = shape.geometry.layers;
  scratch.workspace =
      take(std::max(device.SelectWorkspaceBytes(layers, shape.max_requests, shape.max_blocks()),
                    device.AuditWorkspaceBytes(layers, shape.max_requests, shape.max_blocks())));
  scratch.bytes = at;
  return scratch;
}

int64_t StepRunner::ScratchBytes(const kernels::Device& device, const SessionShape& shape) {
  return ScratchAt(nullptr, device, shape).bytes;
}

StepRunner::StepRunner(kernels::Device* device, const SessionView& view, std::byte* scratch)
    : device_(device), view_(view), scratch_(ScratchAt(scratch, *device, view.shape)) {}

absl::Status StepRunner::Audit(absl::Span<const kernels::ScoredRow> rows,
                               const kernels::ScoreView& scores, kernels::LayerRange layers,
                               kernels::Stream stream) {
  if (rows.empty()) return absl::OkStatus();
  absl::Status status = UploadRows(scratch_.audited, rows, stream);
  if (!status.ok()) return status;
  return LaunchAudit(rows.size(), scores, layers, stream);
}

absl::Status StepRunner::LaunchAudit(size_t rows, const kernels::ScoreView& scores,
                                     kernels::LayerRange layers, kernels::Stream stream) {
  return device_->Audit({.geometry = view_.shape.geometry,
                         .state = view_.state(),
                         .layers = layers,
                         .rows = scratch_.audited,
                         .row_count = static_cast<int32_t>(rows),
                         .epoch = view_.epoch,
                         .lists = view_.lists,
                         .scores = scores,
                         .counters = view_.counters,
                         .audits = view_.audits,
                         .workspace = scratch_.workspace,
                         .results = nullptr},
                        stream);
}

absl::Status StepRunner::Observe(absl::Span<const kernels::ScoredRow> rows,
                                 const kernels::ScoreView& scores, kernels::LayerRange layers,
                                 double decay, kernels::Stream stream) {
  if (rows.empty()) return absl::OkStatus();
  absl::Status status = UploadRows(scratch_.scored, rows, stream);
  if (!status.ok()) return status;
  return LaunchObserve(rows.size(), scores, layers, decay, stream);
}

absl::Status StepRunner::LaunchObserve(size_t rows, const kernels::ScoreView& scores,
                                       kernels::LayerRange layers, double decay,
                                       kernels::Stream stream) {
  return device_->Observe({.geometry = view_.shape.geometry,
                           .state = view_.state(),
                           .layers = layers,
                           .rows = scratch_.scored,
                           .row_count = static_cast<int32_t>(rows),
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
  absl::Status status = UploadRows(scratch_.next, rows, stream);
  if (status.ok()) status = device_->Copy(scratch_.policy, &policy, sizeof policy, stream);
  if (!status.ok()) return status;
  return LaunchSelect(rows.size(), layers, stream);
}

absl::Status StepRunner::LaunchSelect(size_t rows, kernels::LayerRange layers,
                                      kernels::Stream stream) {
  return device_->Select({.geometry = view_.shape.geometry,
                          .state = view_.state(),
                          .layers = layers,
                          .rows = scratch_.next,
                          .row_count = static_cast<int32_t>(rows),
                          .max_blocks = view_.lists.max_blocks,
                          .layer_stride = 0,
                          .block_scores = nullptr,
                          .policy = scratch_.policy,
                          .epoch = view_.epoch,
                          .lists = view_.lists,
                          .workspace = scratch_.workspace},
                         stream);
}

absl::Status StepRunner::Upload(const StagedRows& rows, const kernels::Policy& policy,
                                kernels::Stream stream) {
  absl::Status status = UploadRows(scratch_.audited, rows.audited, stream);
  status.Update(UploadRows(scratch_.scored, rows.scored, stream));
  status.Update(UploadRows(scratch_.next, rows.next, stream));
  status.Update(device_->Copy(scratch_.policy, &policy, sizeof policy, stream));
  return status;
}

absl::Status StepRunner::Admit(const StagedRows& rows, kernels::AdmitParams admit,
                               kernels::Stream stream) {
  admit.scored = scratch_.scored;
  admit.scored_count = static_cast<int32_t>(rows.scored.size());
  admit.audited = scratch_.audited;
  admit.audited_count = static_cast<int32_t>(rows.audited.size());
  admit.next = scratch_.next;
  admit.next_count = static_cast<int32_t>(rows.next.size());
  return device_->Admit(admit, stream);
}

absl::Status StepRunner::ObserveStaged(const StagedRows& rows, double decay,
                                       kernels::Stream stream) {
  const kernels::ScoreView scores = view_.staged_scores();
  absl::Status status;
  if (!rows.audited.empty()) {
    status = LaunchAudit(rows.audited.size(), scores, all_layers(), stream);
  }
  if (status.ok() && !rows.scored.empty()) {
    status = LaunchObserve(rows.scored.size(), scores, all_layers(), decay, stream);
  }
  return status;
}

absl::Status StepRunner::PredictStaged(const StagedRows& rows, kernels::Stream stream) {
  if (rows.next.empty()) return absl::OkStatus();
  return LaunchSelect(rows.next.size(), all_layers(), stream);
}

}  // namespace spin::dataplane

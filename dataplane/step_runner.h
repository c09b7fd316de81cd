// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "dataplane/session_view.h"
#include "kernels/device.h"
#include "kernels/policy.h"
#include "kernels/rows.h"

// The kernels of one decode step over one session, in their order, for steps whose rows the host
// decides. Both executors run this, the client over its mapping and spind over its own, so that
// they agree bit by bit.
namespace spin::dataplane {

// Allocates nothing. Not thread-safe: one step at a time, on one stream.
class StepRunner {
 public:
  // Memory of the device that a runner needs for itself. Never shared with another process: kernels
  // trust what they find there.
  static int64_t ScratchBytes(const kernels::Device& device, const SessionShape& shape);

  // The device, the mapping behind the view and the scratch memory (aligned to 256) must outlive
  // the runner.
  StepRunner(kernels::Device* device, const SessionView& view, std::byte* scratch);

  // Compares the fully scored rows with the lists that would have been used. Before Observe.
  absl::Status Audit(absl::Span<const kernels::ScoredRow> rows, const kernels::ScoreView& scores,
                     kernels::LayerRange layers, kernels::Stream stream);

  // Lets the scores of the rows enter the state.
  absl::Status Observe(absl::Span<const kernels::ScoredRow> rows, const kernels::ScoreView& scores,
                       kernels::LayerRange layers, double decay, kernels::Stream stream);

  // Writes the lists of the rows' next step. At most max_requests rows.
  absl::Status Predict(absl::Span<const kernels::Row> rows, const kernels::Policy& policy,
                       kernels::LayerRange layers, kernels::Stream stream);

  // The rows of a step whose scores are in the staging area, or will be there when the stream gets
  // to it.
  struct StagedRows {
    absl::Span<const kernels::ScoredRow> scored;
    absl::Span<const kernels::ScoredRow> audited;
    absl::Span<const kernels::Row> next;
  };
  // Such a step in its parts, in this order: everything comes from the host before the first launch
  // that may have to wait. Upload takes the rows; the others must be given the same ones.
  absl::Status Upload(const StagedRows& rows, const kernels::Policy& policy,
                      kernels::Stream stream);
  // Fills in where the rows are. Optional: without it the step is run in any case.
  absl::Status Admit(const StagedRows& rows, kernels::AdmitParams admit, kernels::Stream stream);
  absl::Status ObserveStaged(const StagedRows& rows, double decay, kernels::Stream stream);
  absl::Status PredictStaged(const StagedRows& rows, kernels::Stream stream);

  const SessionView& view() const { return view_; }
  kernels::LayerRange all_layers() const { return {0, view_.shape.geometry.layers}; }

 private:
  // Where the kernels find what the host passes to them.
  struct Scratch {
    kernels::ScoredRow* audited;  // [max_requests]
    kernels::ScoredRow* scored;   // [max_requests]
    kernels::Row* next;           // [max_requests]
    kernels::Policy* policy;
    std::byte* workspace;
    int64_t bytes;
  };
  static Scratch ScratchAt(std::byte* base, const kernels::Device& device,
                           const SessionShape& shape);

  absl::Status LaunchAudit(size_t rows, const kernels::ScoreView& scores,
                           kernels::LayerRange layers, kernels::Stream stream);
  absl::Status LaunchObserve(size_t rows, const kernels::ScoreView& scores,
                             kernels::LayerRange layers, double decay, kernels::Stream stream);
  absl::Status LaunchSelect(size_t rows, kernels::LayerRange layers, kernels::Stream stream);

  template <typename Row>
  absl::Status UploadRows(Row* to, absl::Span<const Row> rows, kernels::Stream stream) {
    if (rows.empty()) return absl::OkStatus();
    return device_->Copy(to, rows.data(), static_cast<int64_t>(rows.size() * sizeof(Row)), stream);
  }

  kernels::Device* device_;
  SessionView view_;
  Scratch scratch_;
};

}  // namespace spin::dataplane

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "dataplane/session_view.h"
#include "kernels/device.h"
#include "kernels/policy.h"
#include "kernels/rows.h"

// The kernels of one decode step over one session, in their order. Both executors run this, the
// client over its mapping and spind over its own, so that they agree bit by bit.
namespace spin::dataplane {

// Allocates nothing once made. Not thread-safe: one step at a time.
class StepRunner {
 public:
  // The device and the mapping behind the view must outlive the runner.
  StepRunner(kernels::Device* device, const SessionView& view)
      : device_(device), view_(view), workspace_(WorkspaceWords(*device, view)) {}

  // Compares the fully scored rows with the lists that would have been used. Before Observe.
  absl::Status Audit(absl::Span<const kernels::ScoredRow> rows, const kernels::ScoreView& scores,
                     kernels::LayerRange layers, kernels::Stream stream);

  // Lets the scores of the rows enter the state.
  absl::Status Observe(absl::Span<const kernels::ScoredRow> rows, const kernels::ScoreView& scores,
                       kernels::LayerRange layers, double decay, kernels::Stream stream);

  // Writes the lists of the rows' next step. At most max_requests rows.
  absl::Status Predict(absl::Span<const kernels::Row> rows, const kernels::Policy& policy,
                       kernels::LayerRange layers, kernels::Stream stream);

  const SessionView& view() const { return view_; }
  kernels::LayerRange all_layers() const { return {0, view_.shape.geometry.layers}; }

 private:
  static size_t WorkspaceWords(const kernels::Device& device, const SessionView& view);
  std::byte* workspace() { return reinterpret_cast<std::byte*>(workspace_.data()); }
  absl::Status PredictLayer(absl::Span<const kernels::Row> rows, const kernels::Policy& policy,
                            int32_t layer, kernels::Stream stream);

  kernels::Device* device_;
  SessionView view_;
  // Never shared: kernels trust what they find there.
  std::vector<uint64_t> workspace_;
};

}  // namespace spin::dataplane

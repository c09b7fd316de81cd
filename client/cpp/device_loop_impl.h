// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>

#include "client/cpp/control_block.h"
#include "client/cpp/in_flight.h"
#include "client/cpp/row_planner.h"
#include "client/cpp/session_impl.h"
#include "client/cpp/sidecar_steps.h"
#include "client/cpp/slab_mapping.h"
#include "spin/device_loop.h"

namespace spin::internal {

// Behind spin::DeviceLoop.
class DeviceLoopImpl {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceLoopImpl>> Create(SessionImpl* session,
                                                                const DeviceBuffers& buffers);
  ~DeviceLoopImpl();

  absl::Status BeginStep(absl::Span<const StepRow> rows, kernels::Stream stream);
  RowPlan plan(int row) const;
  bool audit_due() const;
  absl::Status Accept(const EndOptions& verdict, kernels::Stream stream);
  absl::Status EndStep(kernels::Stream stream);

  absl::Status SelectAndCompact(int rows, kernels::Stream stream);
  absl::Status Compact(int rows, kernels::Stream stream);
  absl::Status Remap(int layer, int32_t* topk, int32_t topk_stride, int rows,
                     kernels::Stream stream);
  absl::Status Stage(Layers layers, const DeviceScores& scores, int rows, kernels::Stream stream);
  absl::Status Audit(Layers layers, const DeviceScores& scores, int rows, kernels::Stream stream);
  absl::Status Observe(Layers layers, const DeviceScores& scores, int rows, kernels::Stream stream);
  absl::Status Select(int rows, kernels::Stream stream);

 private:
  DeviceLoopImpl(SessionImpl* session, const DeviceBuffers& buffers,
                 std::shared_ptr<const LocalDevice> local, const dataplane::SessionShape& shape,
                 ControlBlock control, std::unique_ptr<InFlight> in_flight,
                 std::unique_ptr<SidecarSteps> sidecar, kernels::DeviceMemory workspace,
                 kernels::DeviceMemory unserved, kernels::DeviceMemory unserved_on_host);

  kernels::Device& device() const { return *local_->device; }
  bool has_drafts() const { return shape_.max_next_n > 1; }
  absl::Status CheckRows(int rows) const;
  absl::Status CheckLayers(Layers layers) const;
  absl::Status CheckLaunch(Layers layers, const DeviceScores& scores, int rows) const;
  void CountUnserved();
  void WriteRows(const ControlBlock::Parts& to) const;
  void WriteScored(const ControlBlock::Parts& to);
  absl::StatusOr<bool> Observed(kernels::Stream stream);
  absl::Status Abandon(kernels::Stream stream);
  absl::Status Refuse(absl::Status why, kernels::Stream stream);
  void Finish();
  kernels::ListTable BoundLists() const;
  int64_t SelectWorkspaceBytes() const;
  kernels::SelectParams SelectOf(const kernels::Row* rows, int row_count) const;
  kernels::CompactParams CompactOf(int rows) const;

  SessionImpl* const session_;
  const DeviceBuffers buffers_;
  const std::shared_ptr<const LocalDevice> local_;
  const dataplane::SessionShape shape_;
  RowPlanner planner_;
  ControlBlock control_;
  const std::unique_ptr<InFlight> in_flight_;
  const std::unique_ptr<SidecarSteps> sidecar_;  // null: the inline executor
  const kernels::DeviceMemory workspace_;
  const kernels::DeviceMemory unserved_;          // int32: rows of layers whose list did not serve
  const kernels::DeviceMemory unserved_on_host_;  // the same, as of some steps ago
  uint32_t unserved_counted_ = 0;
  bool accepted_ = false;
  StepState step_;
};

}  // namespace spin::internal

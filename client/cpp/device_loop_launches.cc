// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// The launches of a DeviceLoop. They name addresses that never change; what a step is about they
// find there when they run.
#include "absl/strings/str_cat.h"
#include "client/cpp/bad_argument.h"
#include "client/cpp/device_loop_impl.h"
#include "client/cpp/element_type.h"

namespace spin::internal {
namespace {

kernels::ScoreView ViewOf(const DeviceScores& scores) {
  return {.data = scores.data,
          .dtype = DtypeOf(scores.type),
          .layer_stride = scores.layer_stride,
          .row_stride = scores.row_stride,
          .draft_stride = scores.draft_stride};
}

// What the parameters name is ignored in favour of the binding's; that they name some is not.
kernels::LayerAudits kAskForAudits;

}  // namespace

absl::Status DeviceLoopImpl::CheckRows(int rows) const {
  if (rows >= 1 && rows <= shape_.max_requests) return absl::OkStatus();
  return BadArgument("rows", absl::StrCat(rows, " is not in 1 to ", shape_.max_requests));
}

absl::Status DeviceLoopImpl::CheckLayers(Layers layers) const {
  const int all = shape_.geometry.layers;
  if (layers.first >= 0 && layers.count >= 1 && layers.count <= all - layers.first) {
    return absl::OkStatus();
  }
  return BadArgument("layers",
                     absl::StrCat(layers.first, " + ", layers.count, " is not within ", all));
}

absl::Status DeviceLoopImpl::CheckLaunch(Layers layers, const DeviceScores& scores,
                                         int rows) const {
  absl::Status status = CheckRows(rows);
  status.Update(CheckLayers(layers));
  if (scores.data == nullptr) status.Update(BadArgument("scores.data", "is null"));
  if (scores.type != ElementType::kFloat32 && scores.type != ElementType::kBFloat16) {
    status.Update(BadArgument("scores.type", "is neither kFloat32 nor kBFloat16"));
  }
  if (scores.layer_stride < 0 || scores.row_stride < 0 || scores.draft_stride < 0) {
    status.Update(BadArgument("scores", "a stride is negative"));
  }
  return status;
}

// Select and Audit may run on streams of their own, so neither uses the other's workspace.
int64_t DeviceLoopImpl::SelectWorkspaceBytes() const {
  return device().SelectWorkspaceBytes(shape_.geometry.layers, shape_.max_requests,
                                       shape_.max_blocks());
}

// Where a launch finds lists it learns from the binding; here is only their shape.
kernels::ListTable DeviceLoopImpl::BoundLists() const {
  return {
      nullptr, nullptr, nullptr, shape_.max_requests, shape_.geometry.layers, shape_.max_blocks()};
}

kernels::SelectParams DeviceLoopImpl::SelectOf(const kernels::Row* rows, int row_count) const {
  return {.geometry = shape_.geometry,
          .state = {},
          .layers = {0, shape_.geometry.layers},
          .rows = rows,
          .row_count = row_count,
          .max_blocks = shape_.max_blocks(),
          .layer_stride = 0,
          .block_scores = nullptr,
          .policy = control_.on_device().policy,
          .epoch = 0,
          .lists = BoundLists(),
          .workspace = workspace_.get(),
          .binding = control_.on_device().binding};
}

kernels::CompactParams DeviceLoopImpl::CompactOf(int rows) const {
  return {.geometry = shape_.geometry,
          .layers = {0, shape_.geometry.layers},
          .rows = control_.on_device().rows,
          .row_count = rows,
          .epoch = 0,
          .lists = BoundLists(),
          .block_table = buffers_.block_table,
          .table_stride = buffers_.table_stride,
          .next_n_stride = shape_.max_next_n,
          .kept_table = buffers_.kept_table,
          .kept_slots = buffers_.kept_slots,
          .kept_blocks = buffers_.kept_blocks,
          .unserved = reinterpret_cast<int32_t*>(unserved_.get()),
          .binding = control_.on_device().binding};
}

// With the sidecar executor the lists are there: spind made them.
absl::Status DeviceLoopImpl::SelectAndCompact(int rows, kernels::Stream stream) {
  if (sidecar_ != nullptr) return Compact(rows, stream);
  if (absl::Status status = CheckRows(rows); !status.ok()) return status;
  return device().SelectAndCompact(SelectOf(control_.on_device().listed, rows), CompactOf(rows),
                                   stream);
}

absl::Status DeviceLoopImpl::Compact(int rows, kernels::Stream stream) {
  if (absl::Status status = CheckRows(rows); !status.ok()) return status;
  return device().Compact(CompactOf(rows), stream);
}

absl::Status DeviceLoopImpl::Remap(int layer, int32_t* topk, int32_t topk_stride, int rows,
                                   kernels::Stream stream) {
  absl::Status status = CheckRows(rows);
  status.Update(CheckLayers({layer, 1}));
  if (buffers_.kept_blocks == nullptr) {
    status.Update(absl::FailedPreconditionError("buffers.kept_blocks: Remap needs it"));
  }
  if (topk == nullptr || topk_stride < 1)
    status.Update(BadArgument("topk", "is null or has no stride"));
  if (!status.ok()) return status;
  // The kernel steps over whole layers; the engine has one.
  const int64_t layer_entries = int64_t{rows} * shape_.max_next_n * topk_stride;
  return device().Remap({.geometry = shape_.geometry,
                         .layers = {layer, 1},
                         .rows = control_.on_device().rows,
                         .row_count = rows,
                         .kept_blocks = buffers_.kept_blocks,
                         .table_stride = buffers_.table_stride,
                         .next_n_stride = shape_.max_next_n,
                         .topk_stride = topk_stride,
                         .topk = topk - layer * layer_entries},
                        stream);
}

absl::Status DeviceLoopImpl::Stage(Layers layers, const DeviceScores& scores, int rows,
                                   kernels::Stream stream) {
  absl::Status status = CheckLaunch(layers, scores, rows);
  if (!status.ok() || sidecar_ == nullptr) return status;
  const int64_t stride = int64_t{shape_.max_blocks()} * shape_.geometry.block;
  const int64_t row_stride = shape_.max_next_n * stride;
  return device().Stage({.geometry = shape_.geometry,
                         .layers = {layers.first, layers.count},
                         .rows = control_.on_device().scored,
                         .row_count = rows,
                         .kept_slots = buffers_.kept_slots,
                         .next_n_stride = shape_.max_next_n,
                         .max_slots = stride,
                         .scores = ViewOf(scores),
                         .staged = {.data = nullptr,
                                    .dtype = shape_.scores,
                                    .layer_stride = shape_.max_requests * row_stride,
                                    .row_stride = row_stride,
                                    .draft_stride = stride},
                         .binding = control_.on_device().binding},
                        stream);
}

absl::Status DeviceLoopImpl::Audit(Layers layers, const DeviceScores& scores, int rows,
                                   kernels::Stream stream) {
  absl::Status status = CheckLaunch(layers, scores, rows);
  if (!status.ok() || sidecar_ != nullptr) return status;
  return device().Audit({.geometry = shape_.geometry,
                         .state = {},
                         .layers = {layers.first, layers.count},
                         .rows = control_.on_device().audited,
                         .row_count = rows,
                         .epoch = 0,
                         .lists = BoundLists(),
                         .scores = ViewOf(scores),
                         .counters = nullptr,
                         .audits = &kAskForAudits,
                         .workspace = workspace_.get() + SelectWorkspaceBytes(),
                         .results = nullptr,
                         .binding = control_.on_device().binding},
                        stream);
}

absl::Status DeviceLoopImpl::Observe(Layers layers, const DeviceScores& scores, int rows,
                                     kernels::Stream stream) {
  absl::Status status = CheckLaunch(layers, scores, rows);
  if (!status.ok() || sidecar_ != nullptr) return status;
  return device().Observe({.geometry = shape_.geometry,
                           .state = {},
                           .layers = {layers.first, layers.count},
                           .rows = control_.on_device().scored,
                           .row_count = rows,
                           .max_next_n = shape_.max_next_n,
                           .max_blocks = shape_.max_blocks(),
                           .epoch = 0,
                           .lists = BoundLists(),
                           .scores = ViewOf(scores),
                           .weights = {},
                           .counters = nullptr,
                           .binding = control_.on_device().binding},
                          stream);
}

absl::Status DeviceLoopImpl::Select(int rows, kernels::Stream stream) {
  absl::Status status = CheckRows(rows);
  if (!status.ok() || sidecar_ != nullptr) return status;
  return device().Select(SelectOf(control_.on_device().next, rows), stream);
}

}  // namespace spin::internal

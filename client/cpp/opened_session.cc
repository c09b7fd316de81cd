// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/opened_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "dataplane/layout.h"
#include "dataplane/slab_header.h"

namespace spin::internal {
namespace {

kernels::Dtype FromProto(v1::Dtype dtype) {
  return dtype == v1::DTYPE_BF16 ? kernels::Dtype::kBF16 : kernels::Dtype::kF32;
}

dataplane::SessionShape ShapeOf(const v1::OpenSessionResponse& opened) {
  const v1::Geometry& g = opened.geometry();
  return {.geometry = {.layers = static_cast<int32_t>(g.layers()),
                       .block = static_cast<int32_t>(g.block_slots()),
                       .topk = static_cast<int32_t>(g.topk()),
                       .tokens_per_slot = static_cast<int32_t>(g.tokens_per_slot()),
                       .state = FromProto(g.state_dtype())},
          .max_slots = static_cast<int64_t>(g.max_slots()),
          .max_requests = static_cast<int32_t>(g.max_requests()),
          .max_next_n = static_cast<int32_t>(g.max_next_n()),
          .scores = FromProto(g.score_dtype()),
          .staging = opened.layout().staging() != 0};
}

dataplane::SessionLayout LayoutOf(const v1::Layout& layout) {
  return {.records = layout.records(),
          .counters = layout.counters(),
          .audits = layout.audits(),
          .timeline = layout.timeline(),
          .headers = layout.headers(),
          .lists = layout.lists(),
          .masks = layout.masks(),
          .staging = layout.staging(),
          .staging_stride = layout.staging_stride(),
          .end = 0};
}

// The offsets that spind sent must be what this library would have laid out itself: then none of
// them can lead outside.
absl::Status CheckLayout(const v1::OpenSessionResponse& opened) {
  const v1::Layout& layout = opened.layout();
  const dataplane::SessionLayout mine = dataplane::LayoutAt(layout.records(), ShapeOf(opened));
  const bool same = layout.layout_version() == dataplane::kLayoutVersion &&
                    layout.counters() == mine.counters && layout.audits() == mine.audits &&
                    layout.timeline() == mine.timeline && layout.headers() == mine.headers &&
                    layout.lists() == mine.lists && layout.masks() == mine.masks &&
                    layout.staging() == mine.staging &&
                    layout.staging_stride() == mine.staging_stride;
  if (same && mine.end <= opened.slab().bytes()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "spind lays its slab out differently: use a client library and a spind of the same version");
}

}  // namespace

absl::StatusOr<std::shared_ptr<OpenedSession>> OpenedSession::Map(
    std::shared_ptr<ControlClient> control, const v1::OpenSessionResponse& opened) {
  if (absl::Status status = CheckLayout(opened); !status.ok()) return status;
  auto slab = MapSlab(opened.slab());
  if (!slab.ok()) return slab.status();
  kernels::Device& device = *slab->local->device;
  kernels::DeviceMemory scratch;
  if (device.uuid() == kernels::kCpuUuid) {  // on a GPU the engine brings its own: DeviceLoop
    auto made = device.Allocate(dataplane::StepRunner::ScratchBytes(device, ShapeOf(opened)));
    if (!made.ok()) return made.status();
    scratch = *std::move(made);
  }
  return std::shared_ptr<OpenedSession>(
      new OpenedSession(std::move(control), opened, *std::move(slab), std::move(scratch)));
}

OpenedSession::OpenedSession(std::shared_ptr<ControlClient> control,
                             const v1::OpenSessionResponse& opened, MappedSlab slab,
                             kernels::DeviceMemory scratch)
    : control_(std::move(control)),
      id_(opened.session_id()),
      slab_(std::move(slab)),
      scratch_(std::move(scratch)),
      runner_(slab_.local->device.get(),
              dataplane::ViewOf(slab_.memory->data(), opened.slab().epoch(), ShapeOf(opened),
                                LayoutOf(opened.layout())),
              scratch_.get()) {
  SetPolicy(opened.policy(), opened.policy_epoch());
}

std::shared_ptr<const PolicyInForce> OpenedSession::policy() const {
  absl::MutexLock lock(&mutex_);
  return policy_;
}

void OpenedSession::SetPolicy(const v1::Policy& policy, uint64_t epoch) {
  auto next = std::make_shared<PolicyInForce>();
  for (int layer = 0; layer < view().shape.geometry.layers; ++layer) {
    next->kernels.sparsity[layer] =
        layer < policy.layer_sparsity_size() ? policy.layer_sparsity(layer) : policy.sparsity();
  }
  next->kernels.exploration = policy.exploration();
  next->kernels.decay = policy.decay();
  next->kernels.seed = policy.seed();
  next->kernels.audit_every = policy.audit_every();
  next->kernels.pin_first_block = policy.pin_first_block() ? 1 : 0;
  next->enabled = policy.enabled();
  next->epoch = epoch;
  absl::MutexLock lock(&mutex_);
  if (policy_ == nullptr || epoch >= policy_->epoch) policy_ = std::move(next);
}

}  // namespace spin::internal

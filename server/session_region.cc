// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/session_region.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/refusal.h"

namespace spin::server {
namespace {

dataplane::SessionView WithRecords(dataplane::SessionView view, kernels::RequestRecord* records) {
  view.records = records;
  return view;
}

}  // namespace

absl::StatusOr<std::shared_ptr<SessionRegion>> SessionRegion::Create(
    Slab* slab, kernels::Device* device, const dataplane::SessionShape& shape) {
  const uint64_t bytes = dataplane::LayoutAt(0, shape).end;
  std::optional<Extent> extent = slab->extents().Allocate(bytes);
  if (!extent.has_value()) {
    const uint64_t left = slab->extents().capacity() - slab->extents().used();
    return Refuse(
        absl::StatusCode::kResourceExhausted, v1::ERROR_REASON_CAPACITY, "geometry",
        absl::StrCat("the session's region needs ", bytes, " bytes of the slab, which has ", left,
                     " left; ask for fewer requests or slots, or start spind with a "
                     "larger --slab-bytes"));
  }
  const dataplane::SessionLayout layout = dataplane::LayoutAt(extent->offset(), shape);
  return std::shared_ptr<SessionRegion>(
      new SessionRegion(slab, device, *std::move(extent), layout, shape));
}

SessionRegion::SessionRegion(Slab* slab, kernels::Device* device, Extent extent,
                             const dataplane::SessionLayout& layout,
                             const dataplane::SessionShape& shape)
    : slab_(slab),
      device_(device),
      extent_(std::move(extent)),
      layout_(layout),
      records_(shape.max_requests),
      view_(WithRecords(dataplane::ViewOf(slab->data(), slab->epoch(), shape, layout),
                        records_.data())),
      generations_(shape.max_requests, 0) {
  // Everything before the lists starts at zero: no generation, no count, no stamp of an earlier
  // owner.
  std::memset(slab->data() + layout.records, 0, layout.lists - layout.records);
  for (int32_t index = shape.max_requests - 1; index >= 0; --index) {
    free_records_.push_back(static_cast<uint32_t>(index));
  }
}

std::optional<SessionRegion::Slot> SessionRegion::TakeRecord() {
  absl::MutexLock lock(&mutex_);
  if (free_records_.empty()) return std::nullopt;
  const uint32_t index = free_records_.back();
  free_records_.pop_back();
  if (++generations_[index] == 0) generations_[index] = 1;  // 0 means free
  return Slot{index, generations_[index]};
}

void SessionRegion::PublishRecord(uint32_t index) {
  auto* published = reinterpret_cast<kernels::RequestRecord*>(slab_->data() + layout_.records);
  published[index] = records_[index];
}

void SessionRegion::ReturnRecord(uint32_t index) {
  absl::MutexLock lock(&mutex_);
  free_records_.push_back(index);
}

}  // namespace spin::server

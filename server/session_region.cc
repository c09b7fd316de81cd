// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/session_region.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "dataplane/step_runner.h"
#include "server/refusal.h"

namespace spin::server {
namespace {

constexpr int64_t RecordsBytes(int32_t requests) {
  const int64_t bytes = requests * int64_t{sizeof(kernels::RequestRecord)};
  return (bytes + 255) / 256 * 256;
}

dataplane::SessionView WithRecords(dataplane::SessionView view, std::byte* records) {
  view.records = reinterpret_cast<kernels::RequestRecord*>(records);
  return view;
}

absl::Status NoRoom(absl::string_view what, uint64_t bytes, const ExtentAllocator& extents) {
  return Refuse(absl::StatusCode::kResourceExhausted, v1::ERROR_REASON_CAPACITY, "geometry",
                absl::StrCat("the session's region needs ", bytes, " bytes of ", what,
                             ", which has ", extents.capacity() - extents.used(),
                             " left; ask for fewer requests or slots, or start spind with a larger "
                             "--slab-bytes"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<SessionRegion>> SessionRegion::Create(
    Slab* slab, const dataplane::SessionShape& shape) {
  const uint64_t bytes = dataplane::LayoutAt(0, shape).end;
  std::optional<Extent> extent = slab->extents().Allocate(bytes);
  if (!extent.has_value()) return NoRoom("the slab", bytes, slab->extents());
  const auto scratch_bytes =
      static_cast<uint64_t>(RecordsBytes(shape.max_requests) +
                            dataplane::StepRunner::ScratchBytes(slab->device(), shape));
  std::optional<Extent> scratch = slab->scratch_extents().Allocate(scratch_bytes);
  if (!scratch.has_value()) {
    return NoRoom("spind's own memory (a 64th of the slab)", scratch_bytes,
                  slab->scratch_extents());
  }
  std::shared_ptr<SessionRegion> region(
      new SessionRegion(slab, *std::move(extent), *std::move(scratch), shape));
  if (absl::Status cleared = region->Clear(); !cleared.ok()) return cleared;
  return region;
}

SessionRegion::SessionRegion(Slab* slab, Extent extent, Extent scratch,
                             const dataplane::SessionShape& shape)
    : slab_(slab),
      extent_(std::move(extent)),
      scratch_(std::move(scratch)),
      scratch_base_(slab->scratch() + scratch_.offset()),
      layout_(dataplane::LayoutAt(extent_.offset(), shape)),
      records_(shape.max_requests),
      view_(WithRecords(dataplane::ViewOf(slab->data(), slab->epoch(), shape, layout_),
                        scratch_base_)),
      generations_(shape.max_requests, 0) {
  for (int32_t index = shape.max_requests - 1; index >= 0; --index) {
    free_records_.push_back(static_cast<uint32_t>(index));
  }
}

int64_t SessionRegion::records_bytes() const { return RecordsBytes(shape().max_requests); }

// Everything before the lists starts at zero: no generation, no count, no stamp of an earlier
// owner.
absl::Status SessionRegion::Clear() {
  absl::Status status =
      slab_->Zero(slab_->data() + layout_.records, layout_.lists - layout_.records);
  status.Update(slab_->Zero(scratch_base_, static_cast<uint64_t>(records_bytes())));
  return status;
}

std::optional<SessionRegion::Slot> SessionRegion::TakeRecord() {
  absl::MutexLock lock(&mutex_);
  if (free_records_.empty()) return std::nullopt;
  const uint32_t index = free_records_.back();
  free_records_.pop_back();
  if (++generations_[index] == 0) generations_[index] = 1;  // 0 means free
  return Slot{index, generations_[index]};
}

absl::Status SessionRegion::PublishRecord(uint32_t index) {
  const kernels::RequestRecord& record = records_[index];
  const uint64_t offset = index * sizeof record;
  absl::Status status =
      slab_->Write(slab_->data() + layout_.records + offset, &record, sizeof record);
  status.Update(slab_->Write(scratch_base_ + offset, &record, sizeof record));
  return status;
}

void SessionRegion::ReturnRecord(uint32_t index) {
  absl::MutexLock lock(&mutex_);
  free_records_.push_back(index);
}

}  // namespace spin::server

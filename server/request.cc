// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/request.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dataplane/request_key.h"
#include "kernels/state.h"
#include "server/refusal.h"

namespace spin::server {
namespace {

absl::Status NoRoom(absl::string_view message) {
  return Refuse(absl::StatusCode::kResourceExhausted, v1::ERROR_REASON_CAPACITY, "slots", message);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Request>> Request::Create(std::shared_ptr<SessionRegion> region,
                                                         std::string key, int64_t slots,
                                                         bool zero_init) {
  const auto slot = region->TakeRecord();
  if (!slot.has_value()) {
    return Refuse(absl::StatusCode::kResourceExhausted, v1::ERROR_REASON_CAPACITY, "key",
                  absl::StrCat("all ", region->shape().max_requests,
                               " requests of the session are open or still being freed"));
  }
  std::shared_ptr<Request> request(new Request(std::move(region), std::move(key), *slot));
  const absl::Status grown = request->Grow(slots, zero_init);
  if (!grown.ok()) return grown;
  request->record().generation = slot->generation;
  const absl::Status published = request->region_->PublishRecord(slot->index);
  if (!published.ok()) return published;
  return request;
}

Request::Request(std::shared_ptr<SessionRegion> region, std::string key, SessionRegion::Slot slot)
    : region_(std::move(region)),
      key_(std::move(key)),
      key_hash_(dataplane::HashRequestKey(key_)),
      slot_(slot) {
  record() = {};
  record().key_hash = key_hash_;
}

Request::~Request() {
  record().generation = 0;
  (void)region_->PublishRecord(slot_.index);  // a stale generation is never asked for again
  region_->ReturnRecord(slot_.index);
}

absl::Status Request::Grow(int64_t slots, bool zero_init) {
  const auto have = static_cast<int32_t>(PageOffsets().size());
  const int32_t want = kernels::PagesFor(slots);
  const kernels::Geometry& geometry = region_->shape().geometry;
  const auto page_bytes = static_cast<uint64_t>(kernels::PageBytes(geometry));
  std::vector<Extent> fresh;
  std::vector<uint32_t> offsets;
  for (int32_t page = have; page < want; ++page) {
    std::optional<Extent> extent = region_->slab().extents().Allocate(page_bytes);
    if (!extent.has_value()) {
      return NoRoom(absl::StrCat("no room in the slab for ", slots, " slots (", want - page,
                                 " pages of ", page_bytes,
                                 " bytes are missing); close requests, or "
                                 "start spind with a larger --slab-bytes"));
    }
    offsets.push_back(static_cast<uint32_t>(extent->offset() / kernels::kPageOffsetUnit));
    fresh.push_back(*std::move(extent));
  }
  if (fresh.empty()) return absl::OkStatus();
  Slab& slab = region_->slab();
  absl::Status status = slab.device().Fill({.geometry = geometry,
                                            .slab = slab.data(),
                                            .pages = offsets.data(),
                                            .page_count = want - have,
                                            .zero_init = zero_init},
                                           slab.stream());
  status.Update(slab.device().Synchronize(slab.stream()));
  if (!status.ok()) return status;
  std::copy(offsets.begin(), offsets.end(), record().pages + have);
  record().page_count = static_cast<uint32_t>(want);
  status = region_->PublishRecord(slot_.index);
  if (!status.ok()) return status;
  {
    absl::MutexLock lock(&pages_mutex_);
    std::move(fresh.begin(), fresh.end(), std::back_inserter(pages_));
  }
  state_bytes_.store(static_cast<uint64_t>(want) * page_bytes, std::memory_order_relaxed);
  // Not past the session's longest context: its lists end there.
  capacity_slots_.store(std::min(int64_t{want} * kernels::kPageSlots, region_->shape().max_slots),
                        std::memory_order_release);
  return absl::OkStatus();
}

std::vector<uint64_t> Request::PageOffsets() const {
  absl::MutexLock lock(&pages_mutex_);
  std::vector<uint64_t> offsets;
  for (const Extent& page : pages_) offsets.push_back(page.offset());
  return offsets;
}

absl::Status Request::InheritFrom(const Request& parent) {
  const int64_t page_bytes = kernels::PageBytes(region_->shape().geometry);
  const std::vector<uint64_t> from = parent.PageOffsets();
  const std::vector<uint64_t> to = PageOffsets();
  const Slab& slab = region_->slab();
  absl::Status status;
  for (size_t page = 0; page < std::min(from.size(), to.size()); ++page) {
    status.Update(slab.device().Copy(slab.data() + to[page], slab.data() + from[page], page_bytes,
                                     slab.stream()));
  }
  status.Update(slab.device().Synchronize(slab.stream()));
  if (!status.ok()) return status;
  step_state_.progress = parent.step_state_.progress;
  return absl::OkStatus();
}

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/extents.h"

#include <utility>

#include "dataplane/slab_header.h"

namespace spin::server {

Extent::Extent(Extent&& other) noexcept { *this = std::move(other); }

Extent& Extent::operator=(Extent&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(offset_, other.offset_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Extent::~Extent() {
  if (owner_ != nullptr) owner_->Free(offset_, bytes_);
}

ExtentAllocator::ExtentAllocator(uint64_t begin, uint64_t end) : capacity_(end - begin) {
  if (end > begin) free_[begin] = end - begin;
}

std::optional<Extent> ExtentAllocator::Allocate(uint64_t bytes) {
  constexpr uint64_t kAlign = dataplane::kSlabAlignment;
  const uint64_t size = (bytes + kAlign - 1) / kAlign * kAlign;
  if (size == 0 || size < bytes) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, room] = *it;
    if (room < size) continue;
    free_.erase(it);
    if (room > size) free_[offset + size] = room - size;
    used_ += size;
    return Extent(this, offset, size);
  }
  return std::nullopt;
}

void ExtentAllocator::Free(uint64_t offset, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  used_ -= bytes;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

uint64_t ExtentAllocator::used() const {
  absl::MutexLock lock(&mutex_);
  return used_;
}

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

// Who has which bytes of the slab. First fit, because almost all pieces of a session are equally
// large; the slab never grows, so what does not fit is refused.
namespace spin::server {

class ExtentAllocator;

// A reserved piece of the slab; given back when destroyed. Move-only. Must not outlive its
// allocator.
class Extent {
 public:
  Extent() = default;
  Extent(Extent&& other) noexcept;
  Extent& operator=(Extent&& other) noexcept;
  ~Extent();

  uint64_t offset() const { return offset_; }
  uint64_t bytes() const { return bytes_; }

 private:
  friend class ExtentAllocator;
  Extent(ExtentAllocator* owner, uint64_t offset, uint64_t bytes)
      : owner_(owner), offset_(offset), bytes_(bytes) {}

  ExtentAllocator* owner_ = nullptr;
  uint64_t offset_ = 0;
  uint64_t bytes_ = 0;
};

// Thread-safe.
class ExtentAllocator {
 public:
  // Manages [begin, end); both multiples of dataplane::kSlabAlignment.
  ExtentAllocator(uint64_t begin, uint64_t end);

  // `bytes`, rounded up to the alignment; nothing if there is no such piece.
  std::optional<Extent> Allocate(uint64_t bytes);

  uint64_t capacity() const { return capacity_; }
  uint64_t used() const;

 private:
  friend class Extent;
  void Free(uint64_t offset, uint64_t bytes);

  const uint64_t capacity_;
  mutable absl::Mutex mutex_;
  std::map<uint64_t, uint64_t> free_ ABSL_GUARDED_BY(mutex_);  // offset -> bytes, never adjacent
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace spin::server

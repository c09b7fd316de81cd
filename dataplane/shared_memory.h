// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "dataplane/slab_memory.h"

// POSIX shared memory: the slab of the CPU device, a file of a memory file system that both
// processes map.
namespace spin::dataplane {

// A mapping, and for the creator also the file's name and lock. Move-only; unmaps when destroyed.
class SharedMemory final : public SlabMemory {
 public:
  // Creates `path` (mode 0660 whatever the umask) and maps it. All of its memory is reserved now,
  // so that no later access can fault: RESOURCE_EXHAUSTED if the file system has no room. The
  // creator holds a lock on the file as long as it lives, and removes the name when destroyed.
  static absl::StatusOr<SharedMemory> Create(const std::string& path, size_t bytes);

  // Maps a slab made by another process. INVALID_ARGUMENT if the file is shorter than `bytes`.
  static absl::StatusOr<SharedMemory> Open(const std::string& path, size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory() override;

  std::byte* data() const override { return data_; }
  size_t size() const override { return size_; }
  const std::string& path() const { return path_; }

 private:
  SharedMemory() = default;

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  int lock_fd_ = -1;  // creator only
  std::string path_;
};

// Whether files there stay in memory: elsewhere the kernel writes their pages to a disk now and
// then. True if it cannot be told.
bool IsInMemory(const std::string& directory);

// Removes the slab files in `directory` that a creator left behind when it was killed: those named
// with `prefix` whose lock nobody holds. Returns how many.
int RemoveAbandoned(const std::string& directory, const std::string& prefix);

}  // namespace spin::dataplane

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/shared_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace spin::dataplane {
namespace {

absl::Status FileError(absl::string_view doing, const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat(doing, " ", path));
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

absl::StatusOr<std::byte*> Map(int fd, const std::string& path, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return FileError("cannot map", path, errno);
  return static_cast<std::byte*>(data);
}

}  // namespace

absl::StatusOr<SharedMemory> SharedMemory::Create(const std::string& path, size_t bytes) {
  SharedMemory memory;
  // Without a name until it is locked and whole: a creator killed before that leaves nothing
  // behind, and RemoveAbandoned never sees an unlocked slab of a living process.
  memory.lock_fd_ = open(DirectoryOf(path).c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0660);
  if (memory.lock_fd_ < 0) return FileError("cannot create slab", path, errno);
  if (flock(memory.lock_fd_, LOCK_EX | LOCK_NB) != 0 || fchmod(memory.lock_fd_, 0660) != 0) {
    return FileError("cannot lock slab", path, errno);
  }
  const int error = posix_fallocate(memory.lock_fd_, 0, static_cast<off_t>(bytes));
  if (error == ENOSPC || error == EFBIG) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no room for a slab of ", bytes, " bytes at ", path,
                     ": enlarge that file system, or ask for less with --slab-bytes"));
  }
  if (error != 0) return FileError("cannot reserve slab", path, error);
  const std::string unnamed = absl::StrCat("/proc/self/fd/", memory.lock_fd_);
  if (linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return FileError("cannot name slab", path, errno);
  }
  memory.path_ = path;  // from here on the destructor removes the name
  absl::StatusOr<std::byte*> data = Map(memory.lock_fd_, path, bytes);
  if (!data.ok()) return data.status();
  memory.data_ = *data;
  memory.size_ = bytes;
  return memory;
}

absl::StatusOr<SharedMemory> SharedMemory::Open(const std::string& path, size_t bytes) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return FileError("cannot open slab", path, errno);
  const auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  struct stat info = {};
  if (fstat(fd, &info) != 0) return FileError("cannot examine slab", path, errno);
  if (static_cast<size_t>(info.st_size) < bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("slab ", path, " has ", info.st_size, " bytes, expected ", bytes));
  }
  absl::StatusOr<std::byte*> data = Map(fd, path, bytes);
  if (!data.ok()) return data.status();
  SharedMemory memory;
  memory.data_ = *data;
  memory.size_ = bytes;
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(lock_fd_, other.lock_fd_);
  std::swap(path_, other.path_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, size_);
  if (lock_fd_ < 0) return;
  if (!path_.empty()) unlink(path_.c_str());
  close(lock_fd_);
}

bool IsInMemory(const std::string& directory) {
  struct statfs info = {};
  if (statfs(directory.c_str(), &info) != 0) return true;
  return info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC || info.f_type == HUGETLBFS_MAGIC;
}

int RemoveAbandoned(const std::string& directory, const std::string& prefix) {
  DIR* dir = opendir(directory.c_str());
  if (dir == nullptr) return 0;
  const auto close_dir = absl::MakeCleanup([dir] { closedir(dir); });
  int removed = 0;
  while (const dirent* entry = readdir(dir)) {
    if (!absl::StartsWith(entry->d_name, prefix)) continue;
    const int fd = openat(dirfd(dir), entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(dirfd(dir), entry->d_name, 0) == 0) ++removed;
    close(fd);
  }
  return removed;
}

}  // namespace spin::dataplane

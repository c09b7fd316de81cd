// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace spin::trace {
namespace {

absl::Status SystemError(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read: ", strerror(error)));
}

absl::StatusOr<size_t> RegularFileSize(const std::string& path, int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemError(path, errno);
  if (S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory, expected a file"));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file"));
  }
  return static_cast<size_t>(info.st_size);
}

absl::StatusOr<absl::Span<const uint8_t>> Map(const std::string& path, int fd) {
  const absl::StatusOr<size_t> size = RegularFileSize(path, fd);
  if (!size.ok()) return size.status();
  if (*size == 0) return absl::Span<const uint8_t>();  // mmap refuses a length of 0
  void* bytes = mmap(nullptr, *size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (bytes == MAP_FAILED) return SystemError(path, errno);
  return absl::MakeConstSpan(static_cast<const uint8_t*>(bytes), *size);
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: a FIFO without a writer must not hang the caller.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return SystemError(path, errno);
  const absl::StatusOr<absl::Span<const uint8_t>> bytes = Map(path, fd);
  close(fd);  // the mapping stays
  if (!bytes.ok()) return bytes.status();
  return MappedFile(*bytes);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);  // `other` unmaps what this object held
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

}  // namespace spin::trace

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/new_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"

namespace spin::internal {
namespace {

constexpr int kAttempts = 16;             // at a name; two are equal once in 2^64
constexpr size_t kLongestNamePart = 200;  // of 255 that a name may have

absl::Status Error(const std::string& path, int error, absl::string_view what) {
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": ", what));
}

absl::Status IsThere(const std::string& path, bool folder) {
  return absl::AlreadyExistsError(
      absl::StrCat(path, folder ? ": is a folder; give the name of a file"
                                : ": is there already; give another name, or remove it first"));
}

// In the same folder, so that it can be renamed.
absl::StatusOr<std::string> TemporaryName(const std::string& path) {
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) {
    return Error(path, errno, "no random name to write under");
  }
  const size_t name = path.rfind('/') + 1;  // 0 if there is no folder in it
  return absl::StrCat(path.substr(0, name + kLongestNamePart), ".", getpid(), ".",
                      absl::Hex(random, absl::kZeroPad16), ".partial");
}

// While it lives, a write past the limit of file sizes is an error and does not end the process,
// which may be an engine's. The signal goes to the thread that writes.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~NoFileSizeSignal() {
    const timespec at_once = {};
    const int error = errno;
    if (!was_pending_) sigtimedwait(&signal_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;

 private:
  sigset_t signal_, before_;
  bool was_pending_;
};

// 0, or what went wrong. Not every file system can rename without replacing: there a second name
// does the same.
int MoveIfAbsent(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (link(from.c_str(), to.c_str()) != 0) return errno;
  unlink(from.c_str());
  return 0;
}

}  // namespace

absl::StatusOr<NewFile> NewFile::Create(const std::string& path, mode_t mode) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const absl::StatusOr<std::string> name = TemporaryName(path);
    if (!name.ok()) return name.status();
    constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const int fd = open(name->c_str(), kFlags, mode);
    if (fd >= 0) return NewFile(path, *name, fd);
    if (errno != EEXIST) break;
  }
  return Error(path, errno, "cannot be made");
}

NewFile::NewFile(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, "")),
      fd_(std::exchange(other.fd_, -1)) {}

NewFile& NewFile::operator=(NewFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);  // `other` removes what this object held
  std::swap(fd_, other.fd_);
  return *this;
}

NewFile::~NewFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
  if (fd_ >= 0) close(fd_);
}

absl::Status NewFile::WriteAt(int64_t offset, const void* data, int64_t bytes) {
  const NoFileSizeSignal guard;
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = pwrite(fd_, from, static_cast<size_t>(bytes), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed(errno, "cannot be written");
    from += written;
    offset += written;
    bytes -= written;
  }
  return absl::OkStatus();
}

absl::Status NewFile::PublishIfAbsent() {
  const int error = MoveIfAbsent(temporary_, path_);
  if (error == EEXIST) return IsThere(path_, /*folder=*/false);
  if (error != 0) return Failed(error, "cannot be written");
  temporary_.clear();
  return absl::OkStatus();
}

absl::Status NewFile::PublishOver() {
  struct stat before;
  if (lstat(path_.c_str(), &before) == 0) fchmod(fd_, before.st_mode & 0777);
  if (fsync(fd_) != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return Failed(errno, "cannot be written");
  }
  temporary_.clear();
  return absl::OkStatus();
}

absl::Status NewFile::Failed(int error, absl::string_view what) const {
  return Error(path_, error, what);
}

absl::Status CheckAbsent(const std::string& path) {
  struct stat found;
  if (lstat(path.c_str(), &found) == 0) return IsThere(path, S_ISDIR(found.st_mode));
  return absl::OkStatus();  // other errors show when the file is made
}

}  // namespace spin::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/spawn/private_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace spin::cli {
namespace {

constexpr char kPrefix[] = "spinctl-";
constexpr size_t kLongestParent = 64;
constexpr absl::Duration kYoung = absl::Minutes(1);  // its creator may be about to lock it

std::string Parent() {
  const char* variable = std::getenv("TMPDIR");
  const std::string parent = variable == nullptr ? "" : variable;
  return parent.empty() || parent.size() > kLongestParent ? "/tmp" : parent;
}

// A descriptor of the directory, locked; -1 if somebody else has the lock, or it is none.
int Lock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return -1;
}

bool RemoveIfAbandoned(const std::string& path) {
  const int fd = Lock(path);
  if (fd < 0) return false;
  const auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  struct stat info = {};
  if (fstat(fd, &info) != 0 || info.st_uid != geteuid()) return false;
  if (absl::Now() - absl::FromTimeT(info.st_mtime) < kYoung) return false;
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return !error;
}

}  // namespace

int RemoveAbandonedDirectories(const std::string& parent) {
  int removed = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(parent, error), end; it != end; it.increment(error)) {
    const std::filesystem::path& path = it->path();
    if (absl::StartsWith(path.filename().string(), kPrefix)) removed += RemoveIfAbandoned(path);
    if (error) break;
  }
  return removed;
}

absl::StatusOr<std::unique_ptr<PrivateDirectory>> PrivateDirectory::Create() {
  RemoveAbandonedDirectories(Parent());
  std::string path = absl::StrCat(Parent(), "/", kPrefix, "XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create a directory in ", Parent()));
  }
  const int lock_fd = Lock(path);
  return std::unique_ptr<PrivateDirectory>(new PrivateDirectory(std::move(path), lock_fd));
}

PrivateDirectory::~PrivateDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  if (lock_fd_ >= 0) close(lock_fd_);
}

}  // namespace spin::cli

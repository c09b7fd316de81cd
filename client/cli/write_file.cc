// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/write_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/same_file.h"
#include "client/cpp/new_file.h"

namespace spin::cli {
namespace {

constexpr mode_t kMode = 0666;  // less the umask

absl::Status Refused(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

}  // namespace

absl::Status CheckOutput(const std::string& path, absl::Span<const std::string> inputs) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": its folder cannot be written to"));
  }
  struct stat found;
  if (lstat(path.c_str(), &found) != 0) return absl::OkStatus();  // making it will tell
  if (S_ISDIR(found.st_mode)) return Refused(path, "is a folder; give the name of a file");
  if (S_ISLNK(found.st_mode)) {
    return Refused(path, "is a symbolic link; give the name of the file that it leads to");
  }
  if (!S_ISREG(found.st_mode)) return Refused(path, "is not a regular file");
  for (const std::string& input : inputs) {
    if (SameFile(path, input)) return Refused(path, "is read from, too; give another name");
  }
  return absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, absl::string_view text) {
  if (absl::Status status = CheckOutput(path, {}); !status.ok()) return status;
  absl::StatusOr<internal::NewFile> file = internal::NewFile::Create(path, kMode);
  if (!file.ok()) return file.status();
  absl::Status status = file->WriteAt(0, text.data(), static_cast<int64_t>(text.size()));
  return status.ok() ? file->PublishOver() : status;
}

}  // namespace spin::cli

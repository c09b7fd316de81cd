// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace spin::internal {

// A file that appears under its name when it is whole: until then it lies in the same folder under
// a name that nobody else has, and is removed with this object. Move-only, not thread-safe. The
// message of every error begins with the path that was asked for.
class NewFile {
 public:
  // For readers and writers of `mode`, less the umask. The errors are the system's.
  static absl::StatusOr<NewFile> Create(const std::string& path, mode_t mode);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) noexcept;
  ~NewFile();

  // All of it, or an error: no signal, not even where a limit of file sizes is met (SIGXFSZ).
  absl::Status WriteAt(int64_t offset, const void* data, int64_t bytes);

  // ALREADY_EXISTS: something of that name is there; it stays. Does not wait for the disk, so that
  // an engine's thread may call it.
  absl::Status PublishIfAbsent();
  // Puts it on disk first. Of the mode that the file had which it replaces; look first at what that
  // is.
  absl::Status PublishOver();

 private:
  NewFile(std::string path, std::string temporary, int fd);
  absl::Status Failed(int error, absl::string_view what) const;

  std::string path_;
  std::string temporary_;  // empty once it has its own name
  int fd_;                 // -1 if moved from
};

// ALREADY_EXISTS: something of that name is there, a link that leads nowhere included.
absl::Status CheckAbsent(const std::string& path);

}  // namespace spin::internal

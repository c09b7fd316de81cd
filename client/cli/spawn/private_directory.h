// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace spin::cli {

// A new directory that only we can enter, under $TMPDIR or /tmp. Removed, with all that is in it,
// when destroyed. One that a killed process left behind is removed by the next Create().
class PrivateDirectory {
 public:
  // Short enough for a unix socket in it: a long $TMPDIR is passed over for /tmp.
  static absl::StatusOr<std::unique_ptr<PrivateDirectory>> Create();
  ~PrivateDirectory();
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  PrivateDirectory(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  std::string path_;
  int lock_fd_;  // of the directory itself; locked as long as we live
};

// Removes our directories in `parent` whose creator is gone. Returns how many.
int RemoveAbandonedDirectories(const std::string& parent);

}  // namespace spin::cli

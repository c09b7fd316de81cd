// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace spin::cli {

// A new directory that only we can enter, under $TMPDIR or /tmp. Removed, with all that is in it,
// when destroyed.
class PrivateDirectory {
 public:
  // Short enough for a unix socket in it: a long $TMPDIR is passed over for /tmp.
  static absl::StatusOr<std::unique_ptr<PrivateDirectory>> Create();
  ~PrivateDirectory();
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit PrivateDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace spin::cli

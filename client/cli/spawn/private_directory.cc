// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/spawn/private_directory.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace spin::cli {
namespace {

constexpr size_t kLongestParent = 64;

std::string Parent() {
  const char* variable = std::getenv("TMPDIR");
  const std::string parent = variable == nullptr ? "" : variable;
  return parent.empty() || parent.size() > kLongestParent ? "/tmp" : parent;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrivateDirectory>> PrivateDirectory::Create() {
  std::string path = absl::StrCat(Parent(), "/spinctl-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create a directory in ", Parent()));
  }
  return std::unique_ptr<PrivateDirectory>(new PrivateDirectory(std::move(path)));
}

PrivateDirectory::~PrivateDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace spin::cli

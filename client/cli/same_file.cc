// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/same_file.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace spin::cli {

bool SameFile(const std::string& a, const std::string& b) {
  std::error_code missing;
  return std::filesystem::equivalent(a, b, missing) && !missing;
}

absl::Status CheckDistinctTraces(const std::vector<std::string>& paths) {
  for (size_t i = 0; i < paths.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!SameFile(paths[i], paths[j])) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("TRACE: ", paths[i], " is the same file as ", paths[j], ", given before"));
    }
  }
  return absl::OkStatus();
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/same_file.h"

#include <filesystem>
#include <system_error>

namespace spin::cli {

bool SameFile(const std::string& a, const std::string& b) {
  std::error_code missing;
  return std::filesystem::equivalent(a, b, missing) && !missing;
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/write_file.h"

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace spin::cli {

absl::Status WriteFile(const std::string& path, absl::string_view text) {
  const auto failed = [&] {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be written"));
  };
  const std::string partial = path + ".partial";
  std::FILE* const file = std::fopen(partial.c_str(), "wb");
  if (file == nullptr) return failed();
  bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  written = std::fclose(file) == 0 && written;
  if (written && std::rename(partial.c_str(), path.c_str()) == 0) return absl::OkStatus();
  absl::Status status = failed();
  std::remove(partial.c_str());
  return status;
}

}  // namespace spin::cli

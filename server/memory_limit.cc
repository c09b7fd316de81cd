// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/memory_limit.h"

#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace spin::server {
namespace {

// "max" is no number; version 1 writes the largest number of pages instead.
std::optional<uint64_t> LimitIn(const std::string& file) {
  std::ifstream in(file);
  std::string text;
  uint64_t limit = 0;
  if (!(in >> text) || !absl::SimpleAtoi(text, &limit) || limit >= uint64_t{1} << 62) {
    return std::nullopt;
  }
  return limit;
}

}  // namespace

std::optional<uint64_t> MemoryLimit(const std::string& root, const std::string& membership) {
  // A container sees its own group at the root of the mount; elsewhere it is at the path that
  // /proc names. Lines are NUMBER:CONTROLLERS:PATH, those of version 2 without controllers.
  std::vector<std::string> files = {root + "/memory.max", root + "/memory/memory.limit_in_bytes"};
  std::ifstream groups(membership);
  for (std::string line; std::getline(groups, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[1].empty()) files.push_back(absl::StrCat(root, parts[2], "/memory.max"));
    if (parts[1] == "memory") {
      files.push_back(absl::StrCat(root, "/memory", parts[2], "/memory.limit_in_bytes"));
    }
  }
  std::optional<uint64_t> least;
  for (const std::string& file : files) {
    const std::optional<uint64_t> limit = LimitIn(file);
    if (limit.has_value() && (!least.has_value() || *limit < *least)) least = limit;
  }
  return least;
}

}  // namespace spin::server

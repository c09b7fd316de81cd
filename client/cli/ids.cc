// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/ids.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace spin::cli {

std::string FormatId(uint64_t id) { return absl::StrFormat("%016x", id); }

bool IsHexadecimal(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
}

}  // namespace spin::cli

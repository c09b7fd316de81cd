// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/terminal/wrap.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/terminal/color.h"

namespace spin::cli {
namespace {

constexpr absl::string_view kReset = "\033[0m";

// The colour that is on behind the text; empty: none.
std::string ColorAfter(absl::string_view text) {
  const size_t at = text.rfind('\033');
  if (at == absl::string_view::npos) return "";
  const absl::string_view last = text.substr(at, text.find('m', at) - at + 1);
  return last == kReset ? "" : std::string(last);
}

}  // namespace

std::vector<std::string> Wrap(absl::string_view text, size_t columns) {
  std::vector<std::string> lines = {""};
  size_t at = 0;
  while (at < text.size()) {
    size_t word = text.find_first_not_of(' ', at);
    if (word == absl::string_view::npos) break;
    const size_t end = std::min(text.find(' ', word), text.size());
    const bool fits =
        DisplayWidth(lines.back()) + DisplayWidth(text.substr(at, end - at)) <= columns;
    if (!fits && !lines.back().empty()) {
      const std::string color = ColorAfter(lines.back());
      if (!color.empty()) absl::StrAppend(&lines.back(), kReset);
      lines.push_back(color);
      at = word;  // the blanks go with the break
    }
    absl::StrAppend(&lines.back(), text.substr(at, end - at));
    at = end;
  }
  return lines;
}

}  // namespace spin::cli

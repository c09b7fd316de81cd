// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/terminal/color.h"

#include "absl/strings/str_cat.h"

namespace spin::cli {
namespace {

constexpr char kReset[] = "\033[0m";

absl::string_view Sequence(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kStrong:
      return "\033[1m";
    case Tone::kQuiet:
      return "\033[2m";
    case Tone::kGood:
      return "\033[32m";
    case Tone::kWarn:
      return "\033[33m";
    case Tone::kBad:
      return "\033[31m";
  }
  return "";
}

// Length of the colour sequence or UTF-8 character at the start of a text that is not empty.
size_t UnitLength(absl::string_view text) {
  if (text[0] == '\033') {
    const size_t end = text.find('m');
    return end == absl::string_view::npos ? text.size() : end + 1;
  }
  size_t length = 1;
  while (length < text.size() && (text[length] & 0xc0) == 0x80) ++length;
  return length;
}

}  // namespace

std::string Paint::operator()(Tone tone, absl::string_view text) const {
  if (!enabled_ || tone == Tone::kPlain) return std::string(text);
  return absl::StrCat(Sequence(tone), text, kReset);
}

size_t DisplayWidth(absl::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    if (text[0] != '\033') ++width;
    text.remove_prefix(UnitLength(text));
  }
  return width;
}

std::string Clip(absl::string_view text, size_t columns) {
  size_t at = 0, width = 0;
  bool colored = false;
  while (at < text.size()) {
    const bool sequence = text[at] == '\033';
    if (!sequence && width == columns) break;
    colored |= sequence;
    width += !sequence;
    at += UnitLength(text.substr(at));
  }
  const bool cut = at < text.size();
  return absl::StrCat(text.substr(0, at), cut && colored ? kReset : "");
}

}  // namespace spin::cli

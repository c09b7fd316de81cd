// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/values.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/json.h"

namespace spin::cli {
namespace {

// A validator from a test; `expected` completes "1.5 is not ...".
template <typename Test>
CLI::Validator Expect(std::string expected, Test test) {
  return CLI::Validator(
      [expected = std::move(expected), test = std::move(test)](const std::string& text) {
        const std::string shown = text.empty() ? "''" : text;
        return test(text) ? std::string() : absl::StrCat(shown, " is not ", expected);
      },
      "");
}

// Strict: a NaN is no number, and nothing may follow. Comparisons are false for NaN.
bool ParseNumber(const std::string& text, double* value) {
  return absl::SimpleAtod(text, value) && *value == *value;
}

}  // namespace

CLI::Validator ShareBelowOne() {
  return Expect("in [0, 1)", [](const std::string& text) {
    double value;
    return ParseNumber(text, &value) && value >= 0 && value < 1;
  });
}

CLI::Validator Share() {
  return Expect("in [0, 1]", [](const std::string& text) {
    double value;
    return ParseNumber(text, &value) && value >= 0 && value <= 1;
  });
}

CLI::Validator IntegerIn(int64_t least, int64_t most) {
  return Expect(absl::StrCat("a whole number from ", least, " to ", most),
                [least, most](const std::string& text) {
                  int64_t value;
                  return absl::SimpleAtoi(text, &value) && value >= least && value <= most;
                });
}

CLI::Validator Unsigned64() {
  return Expect("a whole number from 0 to 2^64 - 1", [](const std::string& text) {
    uint64_t value;
    return absl::SimpleAtoi(text, &value);
  });
}

CLI::Validator OneOf(std::vector<std::string> choices) {
  std::string expected = absl::StrCat("one of: ", absl::StrJoin(choices, ", "));
  return Expect(std::move(expected), [choices = std::move(choices)](const std::string& text) {
    return std::find(choices.begin(), choices.end(), text) != choices.end();
  });
}

CLI::Validator DurationIn(absl::Duration least, absl::Duration most) {
  std::string expected = absl::StrCat("a duration from ", absl::FormatDuration(least), " to ",
                                      absl::FormatDuration(most), ", such as 500ms or 2s");
  return Expect(std::move(expected), [least, most](const std::string& text) {
    absl::Duration value;
    return absl::ParseDuration(text, &value) && value >= least && value <= most;
  });
}

CLI::Validator Utf8() {
  return CLI::Validator(
      [](const std::string& text) {
        // One leaves out what is no UTF-8, the other puts something in its place.
        const Json json = text;
        const bool valid = json.dump(-1, ' ', false, Json::error_handler_t::ignore) ==
                           json.dump(-1, ' ', false, Json::error_handler_t::replace);
        return valid ? std::string() : absl::StrCat(absl::CHexEscape(text), " is not UTF-8");
      },
      "");
}

CLI::Validator Path() {
  return Expect("a path", [](const std::string& text) { return !text.empty(); });
}

CLI::Validator EachOf(CLI::Validator item) {
  return CLI::Validator(
      [item = std::move(item)](const std::string& text) {
        for (const absl::string_view part : absl::StrSplit(text, ',')) {
          if (std::string refusal = item(std::string(part)); !refusal.empty()) return refusal;
        }
        return std::string();
      },
      "");
}

std::string ChoiceName(const std::vector<std::string>& choices) {
  return absl::StrJoin(choices, "|");
}

}  // namespace spin::cli

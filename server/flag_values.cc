// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/flag_values.h"

#include <algorithm>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace spin::server {
namespace {

// CLI11's conversions take what does not fit, and what is below 0, for the largest numbers.
bool InBytes(std::string& text) {
  if (absl::StartsWith(text, "-")) return false;
  try {
    return CLI::AsSizeValue(false)(text).empty();
  } catch (const CLI::ValidationError&) {  // it names all of its units
    return false;
  }
}

}  // namespace

// CLI11's own Range lets NaN pass.
CLI::Validator Ratio(bool below_one) {
  return CLI::Validator(
      [below_one](std::string& text) -> std::string {
        double value = 0;
        const bool number = CLI::detail::lexical_cast(text, value);
        if (number && value >= 0 && (below_one ? value < 1 : value <= 1)) return "";
        return text + " is not in [0, 1" + (below_one ? ")" : "]");
      },
      below_one ? "[0, 1)" : "[0, 1]");
}

CLI::Validator WholeNumber(uint64_t most) {
  return CLI::Validator(
      [most](std::string& text) -> std::string {
        uint64_t value = 0;
        if (absl::SimpleAtoi(text, &value) && value <= most) return "";
        return absl::StrCat(text, " is not a whole number from 0 to ", most);
      },
      "");
}

CLI::Validator Size(uint64_t least, uint64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        const std::string given = text;
        uint64_t bytes = 0;
        const bool fits =
            InBytes(text) && absl::SimpleAtoi(text, &bytes) && bytes >= least && bytes <= most;
        if (fits) return "";
        return absl::StrCat(given, " is not a size from ", least, " to ", most,
                            " bytes, such as 512MiB or 2GiB");
      },
      "SIZE");
}

std::vector<uid_t> UidsIn(const std::string& text) {
  std::vector<uid_t> uids;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    uid_t uid = 0;
    if (!absl::SimpleAtoi(part, &uid)) {
      throw CLI::ValidationError("--allow-uids",
                                 "\"" + std::string(part) + "\" is not a user number");
    }
    uids.push_back(uid);
  }
  return uids;
}

absl::Status CheckSwitch(const CLI::Option& option, bool in_environment) {
  if (option.get_fnames().empty()) return absl::OkStatus();  // it has one side only
  std::vector<bool> given;
  for (const std::string& value : option.results()) {
    given.push_back(CLI::detail::to_flag_value(value) > 0);
  }
  if (in_environment && !given.empty()) given.erase(given.begin());
  const bool both =
      std::adjacent_find(given.begin(), given.end(), std::not_equal_to<>()) != given.end();
  if (!both) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", option.get_lnames()[0], " excludes --", option.get_fnames()[0]));
}

}  // namespace spin::server

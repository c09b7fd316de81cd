// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/help_formatter.h"

#include "absl/strings/str_cat.h"

namespace spin::cli {

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  const bool takes_value = option->get_items_expected_min() > 0;
  return takes_value ? absl::StrCat(" ", option->get_type_name()) : "";
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  const std::string& standard = option->get_default_str();
  if (standard.empty()) return option->get_description();
  return absl::StrCat(option->get_description(), " (default ", standard, ")");
}

}  // namespace spin::cli

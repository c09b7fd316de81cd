// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/values.h"

namespace spin::cli {

inline void ReadItem(const std::string& text, std::string* item) { *item = text; }
inline void ReadItem(const std::string& text, double* item) {
  (void)absl::SimpleAtod(text, item);  // checked before
}

// A flag that takes a list with commas between its items, each as `item` has it. Not by CLI11's own
// delimiter, which drops empty items: the values behind would be those of other layers.
template <typename T>
CLI::Option* AddListFlag(CLI::App* command, const std::string& name, std::vector<T>* list,
                         const std::string& description, const CLI::Validator& item) {
  const auto read = [list](const std::string& text) {
    list->clear();
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      ReadItem(std::string(part), &list->emplace_back());
    }
  };
  return command->add_option_function<std::string>(name, read, description)
      ->check(EachOf(item))
      ->default_str(absl::StrJoin(*list, ","));
}

}  // namespace spin::cli

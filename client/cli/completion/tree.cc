// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/completion/tree.h"

#include <CLI/CLI.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace spin::cli {
namespace {

// "inline|sidecar" as two choices; anything else is not a choice.
std::vector<std::string> ChoicesOf(const std::string& type) {
  if (!absl::StrContains(type, '|')) return {};
  return absl::StrSplit(type, '|');
}

CompletionFlag ReadFlag(const CLI::Option& option) {
  CompletionFlag flag;
  flag.name = absl::StrCat("--", option.get_lnames().front());
  flag.description = option.get_description();
  if (option.get_items_expected_min() == 0) return flag;
  flag.value = option.get_type_name();
  flag.choices = ChoicesOf(flag.value);
  flag.file = flag.value == "FILE" || flag.value == "PATH";
  return flag;
}

void ReadOption(const CLI::Option& option, CompletionCommand* command) {
  if (!option.get_lnames().empty()) {
    command->flags.push_back(ReadFlag(option));
  } else if (option.get_positional()) {
    command->files = option.get_type_name() == "FILE";
    for (std::string& word : ChoicesOf(option.get_type_name()))
      command->words.push_back(std::move(word));
  }
}

CompletionCommand Read(const CLI::App& app, const std::vector<std::string>& path) {
  CompletionCommand command;
  command.path = path;
  command.description = app.get_description();
  for (const CLI::Option* option : app.get_options()) ReadOption(*option, &command);
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    std::vector<std::string> below_path = path;
    below_path.push_back(below->get_name());
    command.commands.push_back(Read(*below, below_path));
  }
  return command;
}

}  // namespace

CompletionCommand ReadTree(const CLI::App& app) { return Read(app, {}); }

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

// What a shell needs to know of the command line, read from the CLI11 app itself: a command or flag
// that is added there is completed here.
namespace spin::cli {

struct CompletionFlag {
  std::string name;                  // "--executor"
  std::string description;           // one line
  std::string value;                 // "K", "FILE", "inline|sidecar"; empty if it takes none
  std::vector<std::string> choices;  // of the value, if it has a fixed few
  bool file = false;                 // the value is a path
};

struct CompletionCommand {
  std::vector<std::string> path;  // {"policy", "set"}; empty for spinctl itself
  std::string description;
  std::vector<CompletionFlag> flags;
  std::vector<std::string> words;           // choices of a positional argument
  bool files = false;                       // its arguments are paths
  std::vector<CompletionCommand> commands;  // below this one
};

CompletionCommand ReadTree(const CLI::App& app);

// Calls visit for the command and all below it, parents first.
template <typename Visit>
void ForEachCommand(const CompletionCommand& command, Visit visit) {
  visit(command);
  for (const CompletionCommand& below : command.commands) ForEachCommand(below, visit);
}

// One script each, to be sourced or installed.
std::string BashScript(const CompletionCommand& root);
std::string ZshScript(const CompletionCommand& root);
std::string FishScript(const CompletionCommand& root);

}  // namespace spin::cli

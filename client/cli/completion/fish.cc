// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/completion/tree.h"

namespace spin::cli {
namespace {

constexpr char kHead[] = R"(# fish completion for spinctl, made by 'spinctl completion fish'.
# Keep it: spinctl completion fish > ~/.config/fish/completions/spinctl.fish
complete -c spinctl -f
)";

std::string Quote(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

// True where this command, and none below it, was typed.
std::string Condition(const CompletionCommand& command) {
  std::vector<std::string> terms;
  for (const std::string& name : command.path) {
    terms.push_back(absl::StrCat("__fish_seen_subcommand_from ", name));
  }
  std::vector<std::string> below;
  for (const CompletionCommand& child : command.commands) below.push_back(child.path.back());
  if (!below.empty()) {
    terms.push_back(absl::StrCat("not __fish_seen_subcommand_from ", absl::StrJoin(below, " ")));
  }
  return absl::StrCat(" -n ", Quote(absl::StrJoin(terms, "; and ")));
}

std::string Value(const CompletionFlag& flag) {
  if (flag.value.empty()) return "";
  if (flag.file) return " -r -F";
  if (flag.choices.empty()) return " -x";
  return absl::StrCat(" -x -a ", Quote(absl::StrJoin(flag.choices, " ")));
}

std::string Lines(const CompletionCommand& command) {
  const std::string start = absl::StrCat("complete -c spinctl", Condition(command));
  std::string lines;
  for (const CompletionCommand& below : command.commands) {
    absl::StrAppend(&lines, start, " -a ", below.path.back(), " -d ", Quote(below.description),
                    "\n");
  }
  for (const std::string& word : command.words) absl::StrAppend(&lines, start, " -a ", word, "\n");
  if (command.files) absl::StrAppend(&lines, start, " -F\n");
  for (const CompletionFlag& flag : command.flags) {
    absl::StrAppend(&lines, start, " -l ", flag.name.substr(2), Value(flag), " -d ",
                    Quote(flag.description), "\n");
  }
  return lines;
}

}  // namespace

std::string FishScript(const CompletionCommand& root) {
  std::string script = kHead;
  ForEachCommand(root, [&](const CompletionCommand& command) { script += Lines(command); });
  return script;
}

}  // namespace spin::cli

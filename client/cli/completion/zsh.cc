// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/completion/tree.h"

namespace spin::cli {
namespace {

constexpr char kHead[] = R"(#compdef spinctl
# zsh completion for spinctl, made by 'spinctl completion zsh'.
# Keep it: spinctl completion zsh > "${fpath[1]}/_spinctl"
)";

constexpr char kTail[] = R"(
if [ "$funcstack[1]" = "_spinctl" ]; then _spinctl "$@"; else compdef _spinctl spinctl; fi
)";

std::string FunctionName(const CompletionCommand& command) {
  return absl::StrCat("_spinctl", command.path.empty() ? "" : "_",
                      absl::StrJoin(command.path, "_"));
}

// For text inside a single-quoted spec of _arguments or _describe.
std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(text, {{"'", "'\\''"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string Value(const CompletionFlag& flag) {
  if (flag.value.empty()) return "";
  const std::string action = flag.file ? "_files"
                             : flag.choices.empty()
                                 ? ""
                                 : absl::StrCat("(", absl::StrJoin(flag.choices, " "), ")");
  return absl::StrCat(":", Escape(flag.value), ":", action);
}

std::string FlagSpecs(const CompletionCommand& command) {
  std::string specs;
  for (const CompletionFlag& flag : command.flags) {
    absl::StrAppend(&specs, " \\\n    '", flag.name, "[", Escape(flag.description), "]",
                    Value(flag), "'");
  }
  return specs;
}

std::string Leaf(const CompletionCommand& command) {
  const std::string words =
      command.words.empty()
          ? ""
          : absl::StrCat(" \\\n    '1: :(", absl::StrJoin(command.words, " "), ")'");
  const std::string files = command.files ? " \\\n    '*:file:_files'" : "";
  return absl::StrCat("  _arguments", FlagSpecs(command), words, files, "\n");
}

std::string Branch(const CompletionCommand& command) {
  std::string names, cases;
  for (const CompletionCommand& below : command.commands) {
    const std::string& name = below.path.back();
    absl::StrAppend(&names, "\n        '", name, ":", Escape(below.description), "'");
    absl::StrAppend(&cases, "        ", name, ") ", FunctionName(below), " ;;\n");
  }
  return absl::StrCat("  local line state\n  _arguments -C", FlagSpecs(command),
                      " \\\n    '1: :->command' \\\n    '*:: :->rest'\n  case $state in\n"
                      "    command)\n      local -a commands=(",
                      names,
                      ")\n      _describe command commands ;;\n    rest)\n      case $line[1] in\n",
                      cases, "      esac ;;\n  esac\n");
}

}  // namespace

std::string ZshScript(const CompletionCommand& root) {
  std::string script = kHead;
  ForEachCommand(root, [&](const CompletionCommand& command) {
    absl::StrAppend(&script, "\n", FunctionName(command), "() {\n",
                    command.commands.empty() ? Leaf(command) : Branch(command), "}\n");
  });
  return script + kTail;
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "client/cli/completion/tree.h"

namespace spin::cli {
namespace {

// $0: patterns of known commands, $1: cases for values of flags, $2: cases for words of commands.
constexpr char kScript[] = R"(# bash completion for spinctl, made by 'spinctl completion bash'.
# Try it: source <(spinctl completion bash)
# Keep it: spinctl completion bash > /etc/bash_completion.d/spinctl
_spinctl() {
  local cur=$${COMP_WORDS[COMP_CWORD]} prev=$${COMP_WORDS[COMP_CWORD-1]} path='' words='' files='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$$path/$${COMP_WORDS[i]}" in
      $0) path="$$path/$${COMP_WORDS[i]}" ;;
    esac
  done
  COMPREPLY=()
  case "$$path $$prev" in
$1  esac
  case "$$path" in
$2  esac
  if [[ -n $$files && $$cur != -* ]]; then
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$$cur")
  else
    mapfile -t COMPREPLY < <(compgen -W "$$words" -- "$$cur")
  fi
}
complete -F _spinctl spinctl
)";

std::string Path(const CompletionCommand& command) {
  std::string path;
  for (const std::string& name : command.path) absl::StrAppend(&path, "/", name);
  return path;
}

std::string ValueCase(const CompletionCommand& command, const CompletionFlag& flag) {
  std::string reply;
  if (flag.file) {
    reply = "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); ";
  } else if (!flag.choices.empty()) {
    reply = absl::StrCat("mapfile -t COMPREPLY < <(compgen -W \"", absl::StrJoin(flag.choices, " "),
                         "\" -- \"$cur\"); ");
  }
  return absl::StrCat("    \"", Path(command), " ", flag.name, "\") ", reply, "return ;;\n");
}

std::string WordsCase(const CompletionCommand& command) {
  std::vector<std::string> words = command.words;
  for (const CompletionCommand& below : command.commands) words.push_back(below.path.back());
  for (const CompletionFlag& flag : command.flags) words.push_back(flag.name);
  return absl::StrCat("    \"", Path(command), "\") words=\"", absl::StrJoin(words, " "), "\"",
                      command.files ? " files=1" : "", " ;;\n");
}

}  // namespace

std::string BashScript(const CompletionCommand& root) {
  std::vector<std::string> paths;
  std::string value_cases, words_cases;
  ForEachCommand(root, [&](const CompletionCommand& command) {
    if (!command.path.empty()) paths.push_back(absl::StrCat("\"", Path(command), "\""));
    for (const CompletionFlag& flag : command.flags) {
      if (!flag.value.empty()) value_cases += ValueCase(command, flag);
    }
    words_cases += WordsCase(command);
  });
  return absl::Substitute(kScript, absl::StrJoin(paths, "|"), value_cases, words_cases);
}

}  // namespace spin::cli

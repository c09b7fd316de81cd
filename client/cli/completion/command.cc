// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include <memory>

#include "client/cli/command.h"
#include "client/cli/completion/tree.h"
#include "client/cli/json.h"
#include "client/cli/values.h"

namespace spin::cli {
namespace {

constexpr char kFooter[] = R"(Examples:
  source <(spinctl completion bash)                                  this shell only
  spinctl completion bash > /etc/bash_completion.d/spinctl
  spinctl completion zsh > "${fpath[1]}/_spinctl"
  spinctl completion fish > ~/.config/fish/completions/spinctl.fish)";

struct CompletionFlags {
  CommonFlags common;
  std::string shell;
};

std::string Script(const std::string& shell, const CLI::App& app) {
  const CompletionCommand root = ReadTree(app);
  if (shell == "zsh") return ZshScript(root);
  if (shell == "fish") return FishScript(root);
  return BashScript(root);
}

absl::Status RunCompletion(const CompletionFlags& flags, const CLI::App& app) {
  const std::string script = Script(flags.shell, app);
  if (!flags.common.json) return Print(script);
  return Print(Dump({{"shell", flags.shell}, {"script", script}}));
}

}  // namespace

void AddCompletionCommand(CLI::App* app, Action* action) {
  const auto flags = std::make_shared<CompletionFlags>();
  const std::vector<std::string> shells = {"bash", "zsh", "fish"};
  CLI::App* command = app->add_subcommand("completion", "A completion script for your shell");
  command->footer(kFooter);
  command->add_option("SHELL", flags->shell, "Which shell")
      ->required()
      ->check(OneOf(shells))
      ->type_name(ChoiceName(shells));
  AddJsonFlag(command, &flags->common);
  command->callback([=] { *action = [flags, app] { return RunCompletion(*flags, *app); }; });
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/command.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "client/cli/help_formatter.h"
#include "client/cli/values.h"

namespace spin::cli {
namespace {

constexpr char kFooter[] = R"(Try:
  spinctl replay --trace testdata/traces/small-8k.safetensors --topk 128 --sparsity 0.4
  spinctl doctor                                  is everything in order? what to do if not
  spinctl top                                     watch a running spind
  spinctl completion bash > /etc/bash_completion.d/spinctl

Environment:
  SPIN_SOCKET   socket of spind, where --socket is not given (else /run/spin/spind.sock)
  NO_COLOR      no colours

Exit codes:
  0  done
  1  it ran and failed, or a check of 'doctor' failed
  2  a flag, a value or a file is at fault
  3  no spind answers
  128 + N  ended by signal N (130: Ctrl-C))";

}  // namespace

void AddSocketFlag(CLI::App* command, CommonFlags* flags) {
  command
      ->add_option("--socket", flags->socket,
                   "Unix socket of spind ($SPIN_SOCKET, else /run/spin/spind.sock)")
      ->check(Path())  // else an empty variable would silently mean the default
      ->type_name("PATH");
}

void AddJsonFlag(CLI::App* command, CommonFlags* flags) {
  command->add_flag("--json", flags->json, "One JSON object on stdout, and nothing else there");
}

void AddAllCommands(CLI::App* app, Action* action) {
  app->set_version_flag("--version", "spinctl " SPIN_VERSION, "Print the version and exit");
  const auto formatter = std::make_shared<HelpFormatter>();
  formatter->column_width(34);
  app->formatter(formatter);  // commands added below inherit it
  app->footer(kFooter);
  AddReplayCommand(app, action);
  AddEvalCommand(app, action);
  AddTuneCommand(app, action);
  AddRecordCommand(app, action);
  AddStatusCommand(app, action);
  AddSessionsCommand(app, action);
  AddPlanCommand(app, action);
  AddPolicyCommand(app, action);
  AddTopCommand(app, action);
  AddDoctorCommand(app, action);
  AddCompletionCommand(app, action);
  app->require_subcommand(1);
}

std::string InvokedAs() { return program_invocation_name; }

absl::Status Print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "cannot write to stdout");
}

}  // namespace spin::cli

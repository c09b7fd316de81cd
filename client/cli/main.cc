// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/command.h"
#include "client/cli/command_line.h"
#include "client/cli/exit_code.h"
#include "client/cli/interrupt.h"

// spinctl: the command line of Spin.

namespace {

// "spinctl replay: --sparsity: 1.5 is not in [0, 1)". Interruption was the user's wish: no words.
int Report(const std::string& command, const absl::Status& status) {
  if (!status.ok() && !absl::IsCancelled(status)) {
    std::fputs(absl::StrCat(command, ": ", status.message(), "\n").c_str(), stderr);
  }
  return spin::cli::ExitCodeFor(status);
}

}  // namespace

int main(int argc, char** argv) {
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // errors are ours to explain
  spin::cli::CatchInterrupts();
  CLI::App app("Looks at, tests and steers Spin, the predictive indexer sidecar", "spinctl");
  spin::cli::Action action;
  spin::cli::AddAllCommands(&app, &action);
  const spin::cli::ParsedLine parsed = spin::cli::ParseCommandLine(&app, argc, argv);
  if (!parsed.output.empty()) return Report("spinctl", spin::cli::Print(parsed.output));
  if (!parsed.status.ok()) return Report(parsed.command, parsed.status);
  return Report(parsed.command, action());
}

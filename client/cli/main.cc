// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
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

constexpr char kNoMemory[] = "spinctl: not enough memory for this on this machine\n";

// On the main thread what was started is ended on the way out, and main says it. Other threads have
// nobody to catch anything.
void OutOfMemory() {
  if (gettid() == getpid()) throw std::bad_alloc();
  (void)!write(STDERR_FILENO, kNoMemory, sizeof kNoMemory - 1);
  _exit(spin::cli::kExitFailed);
}

int Run(int argc, char** argv) {
  CLI::App app("Looks at, tests and steers Spin, the predictive indexer sidecar", "spinctl");
  spin::cli::Action action;
  spin::cli::AddAllCommands(&app, &action);
  const spin::cli::ParsedLine parsed = spin::cli::ParseCommandLine(&app, argc, argv);
  if (!parsed.output.empty()) return Report("spinctl", spin::cli::Print(parsed.output));
  if (!parsed.status.ok()) return Report(parsed.command, parsed.status);
  return Report(parsed.command, action());
}

}  // namespace

int main(int argc, char** argv) {
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // errors are ours to explain
  spin::cli::CatchInterrupts();
  std::set_new_handler(OutOfMemory);
  try {
    return Run(argc, argv);
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // more than a vector may ever hold
  }
  std::fputs(kNoMemory, stderr);
  return spin::cli::kExitFailed;
}

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;  // CLI11 takes seconds to compile: only what uses it includes it
}

// What all commands share: how they are registered, their common flags, and the way to stdout.
namespace spin::cli {

// The command that the arguments asked for, ready to run; main runs it. Its status decides the exit
// code (exit_code.h), its message is printed after "spinctl COMMAND: ".
using Action = std::function<absl::Status()>;

struct CommonFlags {
  std::string socket;  // as given; SocketOrDefault() has the rest
  bool json = false;
};

void AddSocketFlag(CLI::App* command, CommonFlags* flags);
void AddJsonFlag(CLI::App* command, CommonFlags* flags);

// Each adds its command to the root `app`. The callback that sets *action runs when the command was
// named; `app` and `action` must outlive parsing.
void AddReplayCommand(CLI::App* app, Action* action);
void AddEvalCommand(CLI::App* app, Action* action);
void AddTuneCommand(CLI::App* app, Action* action);
void AddRecordCommand(CLI::App* app, Action* action);
void AddStatusCommand(CLI::App* app, Action* action);
void AddSessionsCommand(CLI::App* app, Action* action);
void AddPolicyCommand(CLI::App* app, Action* action);
void AddPlanCommand(CLI::App* app, Action* action);
void AddTopCommand(CLI::App* app, Action* action);
void AddDoctorCommand(CLI::App* app, Action* action);
void AddCompletionCommand(CLI::App* app, Action* action);

// The whole tree of commands.
void AddAllCommands(CLI::App* app, Action* action);

// What this program was called as, for commands that a user may copy: "build/bin/spinctl".
std::string InvokedAs();

// Writes to stdout, all of it, or says that it could not.
absl::Status Print(const std::string& text);

}  // namespace spin::cli

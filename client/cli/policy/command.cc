// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/policy/command.h"

#include <CLI/CLI.hpp>

namespace spin::cli {

void AddPolicyCommand(CLI::App* app, Action* action) {
  CLI::App* policy = app->add_subcommand("policy", "How many blocks are kept, and how: get or set");
  policy->require_subcommand(1);
  AddPolicyGetCommand(policy, action);
  AddPolicySetCommand(policy, action);
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "client/cli/command.h"

namespace spin::cli {

// The two below `policy`.
void AddPolicyGetCommand(CLI::App* policy, Action* action);
void AddPolicySetCommand(CLI::App* policy, Action* action);

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

// What may stand behind a flag of spind. Each refuses with what was given and what was expected;
// CLI11 puts the flag's name in front: "--sparsity: 1.5 is not in [0, 1)".
namespace spin::server {

CLI::Validator Ratio(bool below_one);                // [0, 1) or [0, 1], a number
CLI::Validator WholeNumber(uint64_t most);           // from 0
CLI::Validator Size(uint64_t least, uint64_t most);  // "512MiB", which becomes bytes
std::vector<uid_t> UidsIn(const std::string& text);  // "0,1000"; else throws ValidationError

// Refuses a switch that the command line has both ways: --enabled and --disabled. If
// `in_environment`, its first result came from there, and yields to the command line.
absl::Status CheckSwitch(const CLI::Option& option, bool in_environment);

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "absl/status/status.h"

// CLI11 reports through exceptions; here they end.
namespace spin::cli {

struct ParsedLine {
  std::string command;  // "spinctl policy set", as far as it was named
  std::string output;   // help or version, if that was asked for: print it and exit
  absl::Status status;  // INVALID_ARGUMENT with one sentence that names the flag
};

ParsedLine ParseCommandLine(CLI::App* app, int argc, const char* const* argv);

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

// What may stand behind a flag. Each validator refuses with what was given and what was expected;
// CLI11 puts the flag's name in front: "--sparsity: 1.5 is not in [0, 1)".
namespace spin::cli {

CLI::Validator ShareBelowOne();                                        // [0, 1), a number
CLI::Validator Share();                                                // [0, 1], a number
CLI::Validator IntegerIn(int64_t least, int64_t most);                 // both included
CLI::Validator Unsigned64();                                           // 0 to 2^64 - 1
CLI::Validator OneOf(std::vector<std::string> choices);                // exactly as written
CLI::Validator DurationIn(absl::Duration least, absl::Duration most);  // "500ms", "1s"
CLI::Validator Utf8();                                                 // what the wire can carry
CLI::Validator Path();                                                 // not empty
CLI::Validator EachOf(CLI::Validator item);                            // "a,b,...", none empty

// "inline|sidecar" for OneOf({"inline", "sidecar"}): shown in --help, and what completion offers.
std::string ChoiceName(const std::vector<std::string>& choices);

}  // namespace spin::cli

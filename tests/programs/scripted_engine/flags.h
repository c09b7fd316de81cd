// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>

#include "spin/options.h"

namespace spin::scripted {

struct Flags {
  SessionOptions session;
  int step_us = 0;           // pause after each step: the rest of the engine's work
  bool recorder = true;      // whether it looks at recordings, where they are allowed
  bool rotate_rows = false;  // put the requests into other rows in each step
};

// Nothing after --help or a mistake, which CLI11 has explained.
std::optional<Flags> ReadFlags(int argc, char** argv);

}  // namespace spin::scripted

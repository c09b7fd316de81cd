// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// An engine that does what its input says: a command a line (command.h), a JSON object a line back.
// The end-to-end tests drive it.

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "tests/programs/scripted_engine/command.h"
#include "tests/programs/scripted_engine/engine.h"
#include "tests/programs/scripted_engine/flags.h"

int main(int argc, char** argv) {
  const auto flags = spin::scripted::ReadFlags(argc, argv);
  if (!flags.has_value()) return 2;
  const auto engine = spin::scripted::Engine::Create(*flags);
  if (!engine.ok()) {
    std::fprintf(stderr, "scripted_engine: %s\n", std::string(engine.status().message()).c_str());
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << spin::scripted::RunCommand(line, **engine).dump() << std::endl;
  }
  return 0;
}

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tests/programs/scripted_engine/engine.h"

// What a line of input asks of the engine:
//
//   ready MS                      waits until the session is open
//   status | stats                of the session
//   open KEY SLOTS POSITION       opens a request whose newest token is at POSITION
//   fork PARENT KEY SLOTS         starts a request from the history of another one
//   extend KEY SLOTS | close KEY | request KEY
//   move KEY POSITION             goes on elsewhere
//   step N                        N decode steps of all open requests
//   drop_step                     a step that is dropped without End()
//   poison none|nan|inf|huge      spoils some scores from now on
//   fork_process | fork_process_in_step
//                                 forks; the child takes over input and output, the parent only
//                                 stays alive
namespace spin::scripted {

nlohmann::json RunCommand(const std::string& line, Engine& engine);

}  // namespace spin::scripted

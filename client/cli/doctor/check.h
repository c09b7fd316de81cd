// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/cli/connection.h"

// What `doctor` looks at. Each check is on its own; one that cannot be made says that it was
// skipped.
namespace spin::cli {

enum class Outcome { kOk, kInfo, kWarn, kFail, kSkipped };

struct Check {
  std::string name;
  Outcome outcome = Outcome::kOk;
  std::string found;   // what was seen
  std::string advice;  // what to do; empty if nothing
};

// From the path to a process that listens there and lets us in.
std::vector<Check> CheckSocket(const std::string& path);

struct ServerChecks {
  std::vector<Check> checks;
  std::optional<v1::ServerInfo> server;  // unset if it did not tell
};

// From the health service to a slab that can be mapped. `reachable`: whether CheckSocket found
// nothing that makes these pointless. After one call without an answer no other is tried: each
// could take as long.
ServerChecks CheckServer(const std::string& path, bool reachable);

// The machine: shared memory, GPU, MPS. `server` may be null.
std::vector<Check> CheckHost(const v1::ServerInfo* server);

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/terminal/table.h"
#include "spin/v1/policy.pb.h"

// Policies as a table, a row for each session.
namespace spin::cli {

Table PolicyTable();
std::vector<std::string> PolicyRow(const std::string& name, const v1::Policy& policy,
                                   uint64_t epoch);

}  // namespace spin::cli

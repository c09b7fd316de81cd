// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "spin/v1/policy.pb.h"

namespace spin::cli {

// A flag that names a policy file, read while parsing; a mistake in it is one in the flag. Without
// the flag `policy` stays empty.
CLI::Option* AddPolicyFileFlag(CLI::App* command, const std::string& name, v1::Policy* policy);

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace spin::cli {

// Keeps keys in the order they were written.
using Json = nlohmann::ordered_json;

// With a newline at the end. Never throws: bytes that are no UTF-8 (a file's name) are replaced.
std::string Dump(const Json& json);      // indented, for one object
std::string DumpLine(const Json& json);  // one line, for a stream of objects

}  // namespace spin::cli

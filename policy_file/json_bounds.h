// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// What a JSON text must keep to before a tree is made of it. Used by policy_file.cc only.
namespace spin::policy_file {

inline constexpr size_t kMaxJsonLevels = 8;

// INVALID_ARGUMENT: it is not valid JSON, has more levels than that, or an object that names a
// field twice; the message names the field. Reads the text once, without recursion.
absl::Status CheckJson(absl::string_view json);

// A name from a file, for a message: escaped, shortened.
std::string ShownName(absl::string_view name);

}  // namespace spin::policy_file

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spin::cli {

// Writes the file, or replaces it, all or nothing: a reader never sees half of it. The message of a
// failure begins with the path.
absl::Status WriteFile(const std::string& path, absl::string_view text);

}  // namespace spin::cli

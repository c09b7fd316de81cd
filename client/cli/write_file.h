// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace spin::cli {

// Whether WriteFile may write there, to say so before the work: to a new file, or over a regular
// one. INVALID_ARGUMENT: a folder, a device, a pipe, a symbolic link (which would be replaced, not
// followed), or one of the `inputs`, under whatever name.
absl::Status CheckOutput(const std::string& path, absl::Span<const std::string> inputs);

// Writes the file, or replaces it, all or nothing: a reader never sees half of it. Refuses what
// CheckOutput does. The message of a failure begins with the path.
absl::Status WriteFile(const std::string& path, absl::string_view text);

}  // namespace spin::cli

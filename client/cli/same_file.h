// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace spin::cli {

// Whether two names are of one file that is there: equal, or through links.
bool SameFile(const std::string& a, const std::string& b);

// INVALID_ARGUMENT if a trace is there twice: it would weigh double.
absl::Status CheckDistinctTraces(const std::vector<std::string>& paths);

}  // namespace spin::cli

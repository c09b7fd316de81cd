// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace spin::cli {

// The status code of GET http://ADDRESS/PATH, where ADDRESS is HOST:PORT. Reads no body; takes at
// most two seconds.
absl::StatusOr<int> HttpGet(const std::string& address, const std::string& path);

}  // namespace spin::cli

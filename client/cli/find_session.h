// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"

namespace spin::cli {

// The open session whose id, written in hexadecimal, begins with `text`: a user copies as many
// digits as are unique. INVALID_ARGUMENT names `flag` if it is no id or not unique, NOT_FOUND if
// there is none.
absl::StatusOr<v1::SessionInfo> FindSession(const Connection& connection, const std::string& flag,
                                            const std::string& text);

}  // namespace spin::cli

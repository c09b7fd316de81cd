// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "client/cli/replay/report.h"

namespace spin::cli {

// Asks spind what it has counted in the session that was opened with this client name. NOT_FOUND if
// there is none (any more).
absl::StatusOr<ServerCounts> FetchServerCounts(const Connection& connection,
                                               const std::string& client_name);

}  // namespace spin::cli

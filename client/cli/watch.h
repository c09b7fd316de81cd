// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"

namespace spin::cli {

// One look at the totals: the first message of WatchStats. `session_id` 0 means all sessions.
absl::StatusOr<v1::WatchStatsResponse> FetchStats(const Connection& connection,
                                                  uint64_t session_id);

}  // namespace spin::cli

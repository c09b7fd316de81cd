// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"
#include "client/cli/connection.h"

namespace spin::cli {

// Asks grpc.health.v1 about the whole server. OK: it serves. UNAVAILABLE: it answers that it does
// not serve, or it does not answer.
absl::Status CheckHealth(const Connection& connection);

}  // namespace spin::cli

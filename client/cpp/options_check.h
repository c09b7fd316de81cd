// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/status.h"
#include "spin/options.h"
#include "spin/v1/session.pb.h"

namespace spin::internal {

// INVALID_ARGUMENT naming the first bad option. The same limits as spind's, so that a session that
// is created can be opened.
absl::Status CheckOptions(const SessionOptions& options);

// The socket to use: the option, else $SPIN_SOCKET, else the default.
std::string SocketOf(const SessionOptions& options);

// What the options ask spind for. They must have passed CheckOptions.
v1::OpenSessionRequest ToProto(const SessionOptions& options);

}  // namespace spin::internal

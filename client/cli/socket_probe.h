// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/status.h"

// Looks at a unix socket without gRPC, which only ever says "failed to connect".
namespace spin::cli {

// `flag` if it is not empty, else $SPIN_SOCKET, else /run/spin/spind.sock.
std::string SocketOrDefault(const std::string& flag);

// INVALID_ARGUMENT if the path is too long for a unix socket (108 bytes with the final zero).
absl::Status CheckSocketPath(const std::string& path);

// OK if somebody listens there. Else one sentence that says what to do, with
//   INVALID_ARGUMENT     the path is too long
//   NOT_FOUND            nothing is there
//   FAILED_PRECONDITION  it is no socket
//   PERMISSION_DENIED    we may not open it
//   UNAVAILABLE          a socket that nobody listens on
absl::Status ProbeSocket(const std::string& path);

// Whether the server accepts a connection and closes it before saying a word: what spind does to a
// user that is not on its --allow-uids list. Waits at most a second.
bool ClosesAtOnce(const std::string& path);

}  // namespace spin::cli

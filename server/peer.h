// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/types.h>

#include <cstdint>

namespace spin::server {

// Who is at the other end of a connection, as the kernel tells it (SO_PEERCRED).
struct Peer {
  uint64_t connection = 0;  // never reused, unlike descriptors
  pid_t pid = 0;            // of the process that connected; 0 if it lives in another pid namespace
  uid_t uid = 0;
};

}  // namespace spin::server

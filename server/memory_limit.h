// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>

// The memory limit of the container, beyond which the kernel kills instead of refusing.
namespace spin::server {

// Bytes, as the control group of this process says (version 2 or 1); nothing where there is no
// limit, or none that can be read. `root` is where control groups are mounted.
std::optional<uint64_t> MemoryLimit(const std::string& root = "/sys/fs/cgroup",
                                    const std::string& membership = "/proc/self/cgroup");

}  // namespace spin::server

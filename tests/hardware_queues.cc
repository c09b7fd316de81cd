// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstdlib>

// For tests that have spind, or its stream waits, in their own process: hardware queues as spind
// has them (server/main.cc), unless the caller wants other ones.
namespace {

[[maybe_unused]] const int kQueues = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);

}  // namespace

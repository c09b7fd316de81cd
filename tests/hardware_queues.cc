// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstdlib>

// For tests that have spind, or its stream waits, in their own process, beside an engine's streams
// and those of earlier tests: as many queues as CUDA has, unless the caller wants other ones.
// (spind sets its own number: kHardwareQueues.)
namespace {

[[maybe_unused]] const int kSet = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);

}  // namespace

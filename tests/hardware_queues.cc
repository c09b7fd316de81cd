// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstdlib>

#include "kernels/word_wait.h"

// For tests that have spind, or its stream waits, in their own process: queues as spind has them,
// unless the caller wants other ones.
namespace {

[[maybe_unused]] const int kSet =
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", spin::kernels::kHardwareQueues, 0);

}  // namespace

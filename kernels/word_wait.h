// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace spin::kernels {

// A wait for a word that another process raises, if it still lives; see Device::WaitWord. All
// memory is the device's.
struct WordWait {
  const uint64_t* word;
  uint64_t value;
  absl::Duration limit;  // from the moment on that the stream has come to it
  uint64_t* given_up;    // becomes `ticket` before a wait ends that is given up
  uint64_t ticket;       // of all waits with this `given_up` no two have the same
};

// CUDA_DEVICE_MAX_CONNECTIONS of spind, set before its first call of CUDA: the hardware queues that
// its streams share. What shares one with a stream that waits stands still, and that must never be
// the stream that ends the wait. spind has three streams; there are 2 queues under MPS if nothing
// is said. Not more than it needs: the clients of an MPS server share a stock of them.
inline constexpr char kHardwareQueues[] = "8";

}  // namespace spin::kernels

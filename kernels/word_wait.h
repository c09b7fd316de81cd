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

}  // namespace spin::kernels

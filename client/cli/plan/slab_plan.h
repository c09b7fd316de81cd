// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "dataplane/layout.h"

namespace spin::cli {

// What a session and its requests take of the slab, in bytes.
struct SlabPlan {
  uint64_t state = 0;    // both averages of all requests, in whole pages
  uint64_t lists = 0;    // block lists, their masks and headers, two of each
  uint64_t staging = 0;  // scores that wait for spind or for a verdict
  uint64_t other = 0;    // request records, counters, the slab's header, spare pages

  uint64_t total() const { return state + lists + staging + other; }
};

// For all of the session's requests open at once with the longest context.
SlabPlan PlanSlab(const dataplane::SessionShape& shape);

}  // namespace spin::cli

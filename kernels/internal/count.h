// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>

namespace spin::kernels::internal {

// Adds to a total in shared memory that another process may read at any time.
inline void Count(uint64_t& total, int64_t more) {
  std::atomic_ref<uint64_t>(total).fetch_add(static_cast<uint64_t>(more),
                                             std::memory_order_relaxed);
}

}  // namespace spin::kernels::internal

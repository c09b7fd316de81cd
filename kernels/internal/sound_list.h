// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace spin::kernels::internal {

// Lists lie in memory that another process can write to: one that is not ascending within the
// context is not used.
inline bool IsSoundList(const int32_t* kept, int32_t count, int32_t blocks) {
  if (count < 0 || count > blocks) return false;
  int32_t last = -1;
  for (int32_t j = 0; j < count; ++j) {
    if (kept[j] <= last || kept[j] >= blocks) return false;
    last = kept[j];
  }
  return true;
}

}  // namespace spin::kernels::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/block_list.h"
#include "kernels/host_device.h"
#include "kernels/rows.h"

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

// Whether a list was made for the row's step, and can be that of a context of `blocks` blocks.
SPIN_HOST_DEVICE inline bool IsListOf(const ListHeader& header, uint64_t epoch, const Row& row,
                                      int32_t blocks) {
  return SameStamp(header.stamp, {epoch, row.generation, row.next_n, row.position}) &&
         header.blocks == blocks && header.count >= 1 && header.count <= blocks;
}

}  // namespace spin::kernels::internal

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

// Whether two rows name the same list: of one step, in one buffer.
SPIN_HOST_DEVICE inline bool SameList(const Row& a, const Row& b) {
  return a.request == b.request && a.next_n == b.next_n && a.position == b.position &&
         a.buffer == b.buffer;
}

// Whether a list was made for the row's step, and can be that of a context of `blocks` blocks.
// Without a branch, so that a GPU waits for no part of the header before it loads more.
SPIN_HOST_DEVICE inline bool IsListOf(const ListHeader& header, uint64_t epoch, const Row& row,
                                      int32_t blocks) {
  const ListStamp& stamp = header.stamp;
  const uint64_t difference = (stamp.epoch ^ epoch) | (stamp.generation ^ row.generation) |
                              (stamp.next_n ^ row.next_n) |
                              static_cast<uint64_t>(stamp.position ^ row.position) |
                              static_cast<uint32_t>(header.blocks ^ blocks);
  const auto others = static_cast<uint32_t>(header.count) - 1;  // but for one
  return (difference == 0) & (others < static_cast<uint32_t>(blocks));
}

}  // namespace spin::kernels::internal

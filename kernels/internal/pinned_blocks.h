// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/block_list.h"
#include "kernels/geometry.h"
#include "kernels/host_device.h"

namespace spin::kernels::internal {

// The blocks that a list holds whatever the prediction: block 0 where the policy pinned it, and the
// tail of the context.
struct PinnedBlocks {
  int32_t sink;  // 1 or 0
  int32_t tail;  // first block of the tail
  int32_t end;   // blocks of the context

  SPIN_HOST_DEVICE constexpr bool Has(int32_t block) const { return block < sink || block >= tail; }
  SPIN_HOST_DEVICE constexpr int32_t count() const { return sink + end - tail; }
  // Among the pinned blocks, in ascending order.
  SPIN_HOST_DEVICE constexpr int32_t Rank(int32_t block) const {
    return block < sink ? block : sink + block - tail;
  }
};

// As the row's list was made.
SPIN_HOST_DEVICE constexpr PinnedBlocks PinnedOf(const RowExtent& extent,
                                                 const ListHeader& header) {
  const int32_t tail = extent.blocks - extent.tail_blocks;
  return {tail > 0 && header.pinned > extent.tail_blocks ? 1 : 0, tail, extent.blocks};
}

}  // namespace spin::kernels::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/geometry.h"
#include "kernels/host_device.h"

// How many blocks a row keeps. One place, run by the CPU reference, the CUDA kernels and the
// planners.
namespace spin::kernels {

// Guards floor() against a product such as 0.3 * 10 that comes out just below the integer.
inline constexpr double kFloorGuard = 1e-9;

// floor(ratio * count + guard). The product and the sum are rounded separately: fused, the GPU
// would keep another number of blocks than the CPU.
SPIN_HOST_DEVICE inline int32_t FloorShare(double ratio, int32_t count) {
#ifdef __CUDA_ARCH__
  return static_cast<int32_t>(floor(__dadd_rn(__dmul_rn(ratio, count), kFloorGuard)));
#else
  const double product = ratio * count;
  return static_cast<int32_t>(product + kFloorGuard);  // both terms are non-negative
#endif
}

struct BlockBudget {
  int32_t keep;      // m: blocks in the list
  int32_t pinned;    // of those, always kept
  int32_t explored;  // of those, drawn at random (if so many are left after the pinned ones)
};

// Paper, section on block selection: m = B - floor(rho B), never below what top-K needs nor below
// the pinned blocks. With d = next_n - 1 draft rows one list serves next_n queries, so it grows by
// d * ceil(B / 256): the paper's exact union costs 0.4 % of sparsity per row.
SPIN_HOST_DEVICE inline BlockBudget BudgetOf(const RowExtent& extent, int32_t next_n, int32_t topk,
                                             int32_t block, double sparsity, double exploration,
                                             bool pin_first_block) {
  const int32_t blocks = extent.blocks;
  const int32_t sink = pin_first_block && extent.tail_blocks < blocks ? 1 : 0;
  const int32_t pinned = extent.tail_blocks + sink;
  int32_t keep = blocks - FloorShare(sparsity, blocks);
  const int32_t topk_blocks = (topk + block - 1) / block;
  if (keep < topk_blocks) keep = topk_blocks;
  if (keep < pinned) keep = pinned;
  if (keep < blocks) keep += (next_n - 1) * ((blocks + 255) / 256);
  if (keep > blocks) keep = blocks;
  int32_t explored =
      keep < blocks ? FloorShare(exploration, keep) : 0;  // all kept: nothing to draw
  if (explored > keep - pinned) explored = keep - pinned;
  return {keep, pinned, explored};
}

}  // namespace spin::kernels

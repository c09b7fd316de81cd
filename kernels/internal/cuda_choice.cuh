// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/budget.h"
#include "kernels/select.h"

// What Select is free to choose in a row, by the rule of budget.h.
namespace spin::kernels::internal {

// Blocks the choice is free about, and how many of them are chosen how.
struct Choice {
  RowExtent extent;
  int32_t first_free;
  int32_t end_free;
  int32_t keep;
  uint32_t best;
  uint32_t explored;
};

__device__ inline Choice ChoiceFor(const SelectParams& p, const Row& row, int32_t layer) {
  const Geometry& g = p.geometry;
  const RowExtent extent = ExtentOf(row.position, row.next_n, g);
  const BlockBudget budget =
      BudgetOf(extent, row.next_n, g.topk, g.block, p.policy->sparsity[layer],
               p.policy->exploration, p.policy->pin_first_block != 0);
  Choice choice;
  choice.extent = extent;
  choice.first_free = budget.pinned - extent.tail_blocks;
  choice.end_free = extent.blocks - extent.tail_blocks;
  choice.keep = budget.keep;
  choice.best = static_cast<uint32_t>(budget.keep - budget.pinned - budget.explored);
  choice.explored = static_cast<uint32_t>(budget.explored);
  return choice;
}

}  // namespace spin::kernels::internal

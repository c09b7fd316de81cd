// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/select.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "kernels/budget.h"
#include "kernels/exploration.h"

namespace spin::kernels {
namespace {

constexpr uint32_t kChosen = UINT32_MAX;  // above every exploration key

// Blocks the choice is free about: between the sink (if pinned) and the tail.
struct FreeBlocks {
  int32_t first;
  int32_t end;
};

// The workspace of one row: candidate indices, and per block its exploration key or kChosen.
struct Scratch {
  int32_t* order;
  uint32_t* keys;
};

void DrawKeys(const SelectParams& p, const Row& row, int32_t layer, FreeBlocks free,
              uint32_t* keys) {
  const uint64_t key_hash = p.state.records[row.request].key_hash;
  for (int32_t block = free.first; block < free.end;) {
    const ExplorationDraw draw =
        DrawBlocks(p.policy->seed, key_hash, row.position, layer, block / kBlocksPerDraw);
    do {
      keys[block] = draw.Key(block % kBlocksPerDraw);
      ++block;
    } while (block < free.end && block % kBlocksPerDraw != 0);
  }
}

// Marks the `best` highest-scored free blocks and, among the rest, the `explored` with the lowest keys.
void ChooseFree(const float* scores, FreeBlocks free, int32_t best, int32_t explored,
                const Scratch& scratch) {
  int32_t* const begin = scratch.order;
  int32_t* const end = begin + (free.end - free.first);
  std::iota(begin, end, free.first);
  std::nth_element(begin, begin + best, end, [scores](int32_t a, int32_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
  });
  const uint32_t* const keys = scratch.keys;
  if (explored > 0) {
    std::nth_element(begin + best, begin + best + explored, end, [keys](int32_t a, int32_t b) {
      return keys[a] < keys[b] || (keys[a] == keys[b] && a < b);
    });
  }
  for (const int32_t* block = begin; block < begin + best + explored; ++block) {
    scratch.keys[*block] = kChosen;
  }
}

// Writes pinned and chosen blocks in ascending order; returns how many.
int32_t WriteList(FreeBlocks free, int32_t blocks, const uint32_t* keys, int32_t* out) {
  int32_t count = 0;
  for (int32_t block = 0; block < blocks; ++block) {
    const bool pinned = block < free.first || block >= free.end;
    if (pinned || keys[block] == kChosen) out[count++] = block;
  }
  return count;
}

void SelectRow(const SelectParams& p, const Row& row, int32_t layer, const float* scores) {
  const Geometry& g = p.geometry;
  const RowExtent extent = ExtentOf(row.position, row.next_n, g);
  const BlockBudget budget = BudgetOf(extent, row.next_n, g.topk, g.block,
                                      p.policy->sparsity[layer], p.policy->exploration,
                                      p.policy->pin_first_block != 0);
  const FreeBlocks free = {budget.pinned - extent.tail_blocks,
                           extent.blocks - extent.tail_blocks};
  const Scratch scratch = {reinterpret_cast<int32_t*>(p.workspace),
                           reinterpret_cast<uint32_t*>(p.workspace) + p.max_blocks};

  ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
  header.stamp.generation = 0;  // nobody may take the list while it changes
  std::atomic_thread_fence(std::memory_order_release);

  std::fill(scratch.keys, scratch.keys + extent.blocks, 0u);
  if (budget.explored > 0) DrawKeys(p, row, layer, free, scratch.keys);
  const int32_t best = budget.keep - budget.pinned - budget.explored;
  ChooseFree(scores, free, best, budget.explored, scratch);
  header.count = WriteList(free, extent.blocks, scratch.keys,
                           p.lists.Blocks(row.buffer, row.request, layer));
  header.blocks = extent.blocks;
  header.pinned = budget.pinned;
  header.predicted = best;
  header.explored = budget.explored;

  std::atomic_thread_fence(std::memory_order_release);
  header.stamp = {p.epoch, p.state.records[row.request].generation, row.next_n, row.position};
}

}  // namespace

void SelectCpu(const SelectParams& p) {
  for (int32_t layer = p.layers.first; layer < p.layers.first + p.layers.count; ++layer) {
    for (int32_t r = 0; r < p.row_count; ++r) {
      if (p.rows[r].request == kPaddingRow) continue;
      SelectRow(p, p.rows[r], layer,
                p.block_scores + (int64_t{layer} * p.row_count + r) * p.max_blocks);
    }
  }
}

}  // namespace spin::kernels

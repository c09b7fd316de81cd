// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/select.h"

#include <algorithm>
#include <atomic>

#include "kernels/budget.h"
#include "kernels/exploration.h"
#include "kernels/internal/cpu_clones.h"
#include "kernels/internal/order_key.h"

namespace spin::kernels {
namespace {

constexpr uint32_t kChosen = UINT32_MAX;  // above every key of a score that is a number

// Blocks the choice is free about: between the sink (if pinned) and the tail.
struct FreeBlocks {
  int32_t first;
  int32_t end;
};

// The workspace of one row, a key per block: first the order of its score, then of its exploration
// draw.
struct Scratch {
  uint32_t* scores;
  uint32_t* draws;
};

// The k-th largest key, bit by bit from the top: no branch depends on the data, and counting
// vectorises.
SPIN_CPU_CLONES uint32_t KthLargest(const uint32_t* keys, int32_t count, int32_t k) {
  uint32_t largest = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t candidate = largest | 1u << bit;
    int32_t at_least = 0;
    for (int32_t i = 0; i < count; ++i) at_least += keys[i] >= candidate ? 1 : 0;
    if (at_least >= k) largest = candidate;
  }
  return largest;
}

// Marks the k largest keys among the free blocks with kChosen in `marks`; ties go to the lower
// block.
SPIN_CPU_CLONES void MarkLargest(const uint32_t* keys, FreeBlocks free, int32_t k,
                                 uint32_t* marks) {
  if (k == 0) return;
  const uint32_t last = KthLargest(keys + free.first, free.end - free.first, k);
  int32_t ties = k;
  for (int32_t block = free.first; block < free.end; ++block) ties -= keys[block] > last ? 1 : 0;
  for (int32_t block = free.first; block < free.end; ++block) {
    const bool tied = keys[block] == last && ties > 0;
    ties -= tied ? 1 : 0;
    if (keys[block] > last || tied) marks[block] = kChosen;
  }
}

SPIN_CPU_CLONES void KeyScores(const float* scores, FreeBlocks free, uint32_t* keys) {
  for (int32_t block = free.first; block < free.end; ++block) {
    keys[block] = internal::OrderKey(scores[block]);
  }
}

// Keys that rise as the exploration keys fall; 0 for blocks that are chosen already.
void KeyDraws(const SelectParams& p, const Row& row, int32_t layer, FreeBlocks free,
              const Scratch& scratch) {
  const uint64_t key_hash = p.state.records[row.request].key_hash;
  for (int32_t block = free.first; block < free.end;) {
    const ExplorationDraw draw =
        DrawBlocks(p.policy->seed, key_hash, row.position, layer, block / kBlocksPerDraw);
    do {
      const uint32_t key = (1u << kExplorationKeyBits) - draw.Key(block % kBlocksPerDraw);
      scratch.draws[block] = scratch.scores[block] == kChosen ? 0 : key;
      ++block;
    } while (block < free.end && block % kBlocksPerDraw != 0);
  }
}

// Writes pinned and chosen blocks in ascending order; returns how many.
int32_t WriteList(FreeBlocks free, int32_t blocks, const uint32_t* marks, int32_t* out) {
  int32_t count = 0;
  for (int32_t block = 0; block < free.first; ++block) out[count++] = block;
  for (int32_t block = free.first; block < free.end; ++block) {
    out[count] = block;
    count += marks[block] == kChosen ? 1 : 0;
  }
  for (int32_t block = free.end; block < blocks; ++block) out[count++] = block;
  return count;
}

void SelectRow(const SelectParams& p, const Row& row, int32_t layer, const float* scores) {
  const Geometry& g = p.geometry;
  const RowExtent extent = ExtentOf(row.position, row.next_n, g);
  const BlockBudget budget =
      BudgetOf(extent, row.next_n, g.topk, g.block, p.policy->sparsity[layer],
               p.policy->exploration, p.policy->pin_first_block != 0);
  const FreeBlocks free = {budget.pinned - extent.tail_blocks, extent.blocks - extent.tail_blocks};
  const Scratch scratch = {reinterpret_cast<uint32_t*>(p.workspace),
                           reinterpret_cast<uint32_t*>(p.workspace) + p.max_blocks};

  ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
  header.stamp.generation = 0;  // nobody may take the list while it changes
  std::atomic_thread_fence(std::memory_order_release);

  const int32_t best = budget.keep - budget.pinned - budget.explored;
  KeyScores(scores, free, scratch.scores);
  MarkLargest(scratch.scores, free, best, scratch.scores);
  if (budget.explored > 0) {
    KeyDraws(p, row, layer, free, scratch);
    MarkLargest(scratch.draws, free, budget.explored, scratch.scores);
  }
  header.count = WriteList(free, extent.blocks, scratch.scores,
                           p.lists.Blocks(row.buffer, row.request, layer));
  header.blocks = extent.blocks;
  header.pinned = budget.pinned;
  header.predicted = best;
  header.explored = budget.explored;
  header.reserved = 0;

  std::atomic_thread_fence(std::memory_order_release);
  header.stamp = {p.epoch, p.state.records[row.request].generation, row.next_n, row.position};
}

}  // namespace

void SelectCpu(const SelectParams& p) {
  for (int32_t layer = p.layers.first; layer < p.layers.first + p.layers.count; ++layer) {
    for (int32_t r = 0; r < p.row_count; ++r) {
      if (p.rows[r].request == kPaddingRow) continue;
      SelectRow(p, p.rows[r], layer,
                p.block_scores + layer * p.layer_stride + int64_t{r} * p.max_blocks);
    }
  }
}

}  // namespace spin::kernels

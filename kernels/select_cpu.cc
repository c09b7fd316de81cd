// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/select.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/budget.h"
#include "kernels/exploration.h"
#include "kernels/internal/cpu_clones.h"
#include "kernels/internal/order_key.h"
#include "kernels/predict.h"

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

// In place: the keys take the room of the scores.
SPIN_CPU_CLONES void KeyScores(FreeBlocks free, uint32_t* scores) {
  for (int32_t block = free.first; block < free.end; ++block) {
    float score;
    std::memcpy(&score, &scores[block], sizeof score);
    scores[block] = internal::OrderKey(score);
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

void WriteMasks(const int32_t* list, int32_t count, int32_t blocks, ListMask* masks) {
  int32_t next = 0;
  for (int32_t word = 0; word < MaskWords(blocks); ++word) {
    masks[word] = {0, static_cast<uint32_t>(next)};
    for (; next < count && list[next] / 32 == word; ++next) {
      masks[word].kept |= 1u << list[next] % 32;
    }
  }
}

// The row's block scores into the workspace, from Predict's output or as Predict would.
void LoadScores(const SelectParams& p, int32_t r, int32_t layer, int32_t blocks, uint32_t* out) {
  if (p.block_scores) {
    std::memcpy(out, p.block_scores + layer * p.layer_stride + int64_t{r} * p.max_blocks,
                blocks * sizeof(float));
    return;
  }
  PredictCpu({.geometry = p.geometry,
              .state = p.state,
              .layers = {layer, 1},
              .rows = p.rows + r,
              .row_count = 1,
              .max_blocks = p.max_blocks,
              .layer_stride = 0,
              .block_scores = reinterpret_cast<float*>(out)});
}

void SelectRow(const SelectParams& p, int32_t r, int32_t layer) {
  const Row& row = p.rows[r];
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
  LoadScores(p, r, layer, extent.blocks, scratch.scores);
  KeyScores(free, scratch.scores);
  MarkLargest(scratch.scores, free, best, scratch.scores);
  if (budget.explored > 0) {
    KeyDraws(p, row, layer, free, scratch);
    MarkLargest(scratch.draws, free, budget.explored, scratch.scores);
  }
  int32_t* const list = p.lists.Blocks(row.buffer, row.request, layer);
  header.count = WriteList(free, extent.blocks, scratch.scores, list);
  WriteMasks(list, header.count, extent.blocks, p.lists.Masks(row.buffer, row.request, layer));
  header.blocks = extent.blocks;
  header.pinned = budget.pinned;
  header.predicted = best;
  header.explored = budget.explored;
  header.cut = 0;

  std::atomic_thread_fence(std::memory_order_release);
  header.stamp = {p.epoch, p.state.records[row.request].generation, row.next_n, row.position};
}

}  // namespace

void SelectCpu(const SelectParams& params) {
  const SelectParams p = Bound(params);
  for (int32_t layer = p.layers.first; layer < p.layers.first + p.layers.count; ++layer) {
    for (int32_t r = 0; r < p.row_count; ++r) {
      if (p.rows[r].request != kPaddingRow) SelectRow(p, r, layer);
    }
  }
}

}  // namespace spin::kernels

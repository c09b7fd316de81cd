// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/heat_map.h"

#include <algorithm>

#include "kernels/geometry.h"

namespace spin::prediction {
namespace {

constexpr int kMaxRows = 128;
constexpr int kMaxColumns = 256;
constexpr int kNearBlocks = 32;

int CeilDiv(int a, int b) { return (a + b - 1) / b; }

Grid MakeGrid(int steps, int first_slot, int end_slot, int slots_per_column) {
  Grid grid;
  grid.steps_per_row = CeilDiv(steps, kMaxRows);
  grid.rows = CeilDiv(steps, grid.steps_per_row);
  grid.first_slot = first_slot;
  grid.slots_per_column = slots_per_column;
  grid.columns = CeilDiv(end_slot - first_slot, slots_per_column);
  grid.cells.resize(static_cast<size_t>(grid.rows) * grid.columns, Cell::kNeither);
  return grid;
}

// Slots [first, end) in this step; those left of the grid do not show.
void Mark(int step, int first, int end, Cell cell, Grid* grid) {
  first = std::max(first, grid->first_slot) - grid->first_slot;
  end -= grid->first_slot;
  Cell* row =
      grid->cells.data() + static_cast<size_t>((step - 1) / grid->steps_per_row) * grid->columns;
  for (int column = first / grid->slots_per_column; column * grid->slots_per_column < end;
       ++column) {
    row[column] = std::max(row[column], cell);
  }
}

}  // namespace

HeatMap::HeatMap(const Trial& trial, int layers, int steps, int slots, int block)
    : trial_(trial), block_(block) {
  const int blocks = kernels::BlocksOf(slots, block);
  const int blocks_per_column = CeilDiv(blocks, kMaxColumns);
  const int near = std::max(0, blocks - kNearBlocks) * block;
  for (int layer = 0; layer < layers; ++layer) {
    layers_.push_back({MakeGrid(steps - 1, 0, slots, blocks_per_column * block),
                       MakeGrid(steps - 1, near, slots, kSubBlockSlots)});
  }
}

void HeatMap::Visit(const LayerStep& at) {
  if (at.step == 0) return;  // everything is kept
  HeatMapLayer& layer = layers_[at.layer];
  const Scan& scan = at.scan();
  const absl::Span<const int32_t> kept = trial_.kept(at.layer);
  for (const int32_t j : kept) {
    for (Grid* grid : {&layer.all, &layer.near}) {
      Mark(at.step, j * block_, std::min((j + 1) * block_, scan.slots), Cell::kKept, grid);
    }
  }
  for (const int32_t slot : scan.top) {
    const bool hit = std::binary_search(kept.begin(), kept.end(), slot / block_);
    for (Grid* grid : {&layer.all, &layer.near}) {
      Mark(at.step, slot, slot + 1, hit ? Cell::kHit : Cell::kMissed, grid);
    }
  }
}

}  // namespace spin::prediction

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Kept against needed blocks over time, small enough to draw.
#pragma once

#include <cstdint>
#include <vector>

#include "prediction/trial.h"
#include "prediction/walk.h"

namespace spin::prediction {

enum class Cell : uint8_t {
  kNeither = 0,
  kKept = 1,    // without need
  kHit = 2,     // kept, and holds a top-K slot
  kMissed = 3,  // holds one, and was not kept
};

// Rows are steps, columns are slots; several steps or blocks may share a cell, which then shows the
// last of the four that one of them has.
struct Grid {
  int rows = 0, columns = 0;
  int steps_per_row = 1;
  int first_slot = 0, slots_per_column = 1;
  std::vector<Cell> cells;  // [rows, columns]
};

struct HeatMapLayer {
  Grid all;   // the whole context
  Grid near;  // the last few blocks, in sub-blocks of 16 slots: distances become visible
};

// Must be visited after the trial that it draws, whose lists it asks for.
class HeatMap : public LayerVisitor {
 public:
  HeatMap(const Trial& trial, int layers, int steps, int slots, int block);

  void Visit(const LayerStep& at) override;

  std::vector<HeatMapLayer> Take() { return std::move(layers_); }

 private:
  const Trial& trial_;
  int block_;
  std::vector<HeatMapLayer> layers_;
};

}  // namespace spin::prediction

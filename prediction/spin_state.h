// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// V and D of one layer of one request, in memory of its own, moved by the kernels that spind runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/block_list.h"
#include "kernels/counters.h"
#include "kernels/geometry.h"
#include "kernels/rows.h"
#include "kernels/state.h"

namespace spin::prediction {

// Contexts of up to `max_slots` slots; a position is a slot.
class SpinState {
 public:
  // geometry.layers and geometry.tokens_per_slot are 1, geometry.state is kF32.
  SpinState(const kernels::Geometry& geometry, int64_t max_slots, double decay);

  // S of every block, for a row of `next_n` queries from `position` on.
  void Predict(int64_t position, int next_n, absl::Span<float> block_scores) const;

  // The first `accepted` of the row's queries enter, in order, as far as these blocks go. `scores`:
  // the full scan of each query; slots outside `kept` are not read.
  void Observe(int64_t position, int next_n, absl::Span<const int32_t> kept,
               absl::Span<const float* const> scores);

  // max(V, D) of each slot that the query sees; -infinity where neither was observed.
  void SlotSignal(int64_t query, absl::Span<float> out) const;

  void ForgetVertical();
  void ForgetDiagonal();

 private:
  float* Page(int64_t page) const;
  void FillHalves(int64_t first_element);

  kernels::Geometry geometry_;
  double decay_;
  mutable std::vector<std::byte> slab_;
  std::vector<kernels::RequestRecord> records_;  // [1]
  // The list that the next scores belong to.
  std::vector<int32_t> blocks_;
  std::vector<float> compact_;
  int64_t compact_stride_;
};

}  // namespace spin::prediction

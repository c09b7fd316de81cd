// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/progress.h"

namespace spin::dataplane {
namespace {

bool Fits(int64_t position, uint32_t next_n, const kernels::Geometry& geometry,
          int64_t capacity_slots) {
  // Distances run up to the query slot itself, which a partly filled slot puts one past the last
  // visible.
  const int64_t last = position + next_n - 1;
  return kernels::QuerySlot(last, geometry.tokens_per_slot) < capacity_slots &&
         kernels::VisibleSlots(last, geometry.tokens_per_slot) <= capacity_slots;
}

}  // namespace

RowVerdict CheckScored(const Progress& progress, int64_t capacity_slots,
                       const kernels::Geometry& geometry, int64_t position, uint32_t next_n,
                       kernels::Coverage coverage, bool resync) {
  if (position < 0 || position > kMaxPosition) return {RowFault::kInvalidField, "position"};
  if (progress.warm && position < progress.next_position) return {RowFault::kPosition, "position"};
  const bool jumps = progress.warm && position > progress.next_position;
  if (jumps && !(resync && coverage == kernels::Coverage::kAll)) {
    return {RowFault::kPosition, "position"};
  }
  if (!progress.warm && coverage == kernels::Coverage::kKept) {
    return {RowFault::kStaleList, "coverage"};
  }
  if (!Fits(position, next_n, geometry, capacity_slots)) return {RowFault::kCapacity, "position"};
  return {};
}

RowVerdict CheckNext(const Progress& progress, int64_t capacity_slots,
                     const kernels::Geometry& geometry, int64_t position, uint32_t next_n) {
  if (position < 0 || position > kMaxPosition) return {RowFault::kInvalidField, "next_position"};
  if (progress.warm && position != progress.next_position) {
    return {RowFault::kPosition, "next_position"};
  }
  if (!Fits(position, next_n, geometry, capacity_slots)) {
    return {RowFault::kCapacity, "next_position"};
  }
  return {};
}

}  // namespace spin::dataplane

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/internal/cpu_clones.h"
#include "kernels/state.h"

// How the CPU kernels walk paged state: in runs of slots whose V and D are both contiguous.
namespace spin::kernels::internal {

template <typename T>
struct StateRun {
  T* v;           // V of `slots` consecutive slots
  T* d;           // D of the same slots (distances fall as addresses rise)
  int64_t slots;  // at least 1
};

// The longest run that starts at `slot`, ends before `end` and crosses no page, for a query at
// `query`.
template <typename T>
SPIN_ALWAYS_INLINE StateRun<T> RunAt(const StateView& state, const RequestRecord& record,
                                     const Geometry& g, int32_t layer, int64_t slot, int64_t end,
                                     int64_t query) {
  const int64_t distance = query - slot;
  const int64_t slots =
      std::min({end - slot, kPageSlots - slot % kPageSlots, distance % kPageSlots + 1});
  std::byte* v = PageAt(state, record, slot / kPageSlots) + VOffset(g, layer, slot);
  std::byte* d = PageAt(state, record, distance / kPageSlots) + DOffset(g, layer, distance);
  return {reinterpret_cast<T*>(v), reinterpret_cast<T*>(d), slots};
}

// Asks for a run's lines without waiting for them.
template <typename T>
SPIN_ALWAYS_INLINE void Prefetch(const StateRun<T>& run) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t slot = 0; slot < run.slots; slot += kLine) {
    __builtin_prefetch(run.v + slot, 1);
    __builtin_prefetch(run.d + slot, 1);
  }
}

}  // namespace spin::kernels::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"

// Order across the two processes (sidecar executor): 64-bit words in the slab that only grow. The engine
// raises one when its scores are staged, spind the other when its lists are written. On a GPU both are
// stream writes and waits; on the CPU, atomics.
namespace spin::dataplane {

struct Timeline {
  uint64_t engine_done;
  uint64_t spin_done;
};

inline void Raise(uint64_t& word, uint64_t value) {
  std::atomic_ref<uint64_t>(word).store(value, std::memory_order_release);
}

inline bool Reached(uint64_t& word, uint64_t value) {
  return std::atomic_ref<uint64_t>(word).load(std::memory_order_acquire) >= value;
}

// Waits until the word has reached `value`; false once `deadline` has passed or `stop()` is true. Never
// unbounded: the writer may be dead.
template <typename Stop>
bool WaitReached(uint64_t& word, uint64_t value, absl::Time deadline, Stop stop) {
  for (int spins = 0; !Reached(word, value); ++spins) {
    if (spins < 1000) continue;
    if (stop() || absl::Now() >= deadline) return Reached(word, value);
    absl::SleepFor(absl::Microseconds(20));
  }
  return true;
}

}  // namespace spin::dataplane

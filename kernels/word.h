// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"

// 64-bit words in shared memory that only grow: the CPU's side of what stream writes and waits are on a GPU.
namespace spin::kernels {

inline void Raise(uint64_t& word, uint64_t value) {
  std::atomic_ref<uint64_t>(word).store(value, std::memory_order_release);
}

inline bool Reached(uint64_t& word, uint64_t value) {
  return std::atomic_ref<uint64_t>(word).load(std::memory_order_acquire) >= value;
}

// Waits until the word has reached `value`; false once `deadline` has passed. Never unbounded: the writer may
// be dead.
inline bool WaitReached(uint64_t& word, uint64_t value, absl::Time deadline) {
  for (int spins = 0; !Reached(word, value); ++spins) {
    if (spins < 1000) continue;
    if (absl::Now() >= deadline) return Reached(word, value);
    absl::SleepFor(absl::Microseconds(20));
  }
  return true;
}

}  // namespace spin::kernels

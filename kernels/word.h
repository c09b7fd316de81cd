// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>

#include <chrono>
#include <thread>

#include "absl/time/time.h"

// 64-bit words in shared memory that only grow: the CPU's side of what stream writes and waits are
// on a GPU.
namespace spin::kernels {

inline void Raise(uint64_t& word, uint64_t value) {
  std::atomic_ref<uint64_t>(word).store(value, std::memory_order_release);
}

inline uint64_t LoadWord(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}

inline bool Reached(const uint64_t& word, uint64_t value) { return LoadWord(word) >= value; }

// Waits until the word has reached `value`; false once `limit` has passed. Never unbounded: the
// writer may be dead.
inline bool WaitReached(const uint64_t& word, uint64_t value, absl::Duration limit) {
  const auto start = std::chrono::steady_clock::now();  // a change of the clock must not stretch it
  for (int spins = 0; !Reached(word, value); ++spins) {
    if (spins < 1000) continue;
    if (absl::FromChrono(std::chrono::steady_clock::now() - start) >= limit)
      return Reached(word, value);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

}  // namespace spin::kernels

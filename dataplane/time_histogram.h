// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

// A histogram of durations that both sides of the contract bucket alike.
namespace spin::dataplane {

// Upper bounds in seconds; a last bucket holds what lies above.
inline constexpr std::array<double, 14> kTimeBounds = {5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4,
                                                       1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1};

// One writer, any number of readers, no locks.
class TimeHistogram {
 public:
  void Add(absl::Duration duration) {
    const double seconds = absl::ToDoubleSeconds(duration);
    size_t bucket = 0;
    while (bucket < kTimeBounds.size() && seconds > kTimeBounds[bucket]) ++bucket;
    Bump(buckets_[bucket], 1);
    Bump(nanoseconds_, absl::ToInt64Nanoseconds(duration));
  }

  struct Snapshot {
    std::array<uint64_t, kTimeBounds.size() + 1> buckets;
    double sum_seconds;
  };
  Snapshot Read() const {
    Snapshot out = {};
    for (size_t i = 0; i < buckets_.size(); ++i) {
      out.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
    }
    out.sum_seconds = static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) * 1e-9;
    return out;
  }

 private:
  static void Bump(std::atomic<uint64_t>& value, int64_t more) {
    value.fetch_add(more > 0 ? static_cast<uint64_t>(more) : 0, std::memory_order_relaxed);
  }

  std::array<std::atomic<uint64_t>, kTimeBounds.size() + 1> buckets_ = {};
  std::atomic<uint64_t> nanoseconds_ = 0;
};

}  // namespace spin::dataplane

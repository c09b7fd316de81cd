// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/totals.h"

#include <algorithm>
#include <cmath>

namespace spin::server {
namespace {

using kernels::LayerCounters;

// Every field of LayerCounters is a uint64_t total; seen as an array, so that none is forgotten.
constexpr size_t kCounters = sizeof(LayerCounters) / sizeof(uint64_t);
using CounterArray = std::array<uint64_t, kCounters>;
static_assert(sizeof(CounterArray) == sizeof(LayerCounters));

// What exceeds these was never counted: some writer went astray. They leave room for sums over many
// sessions.
constexpr uint64_t kBelievable = uint64_t{1} << 58;
constexpr double kBelievableSeconds = 1e12;

// Sums of doubles depend on their order, and a total that shrinks by its last bit looks like a
// restart. Whole nanoseconds add up alike in any order.
double InNanoseconds(double seconds) { return std::nearbyint(seconds * 1e9) / 1e9; }

template <typename Combine>
void ForEachCounter(const LayerCounters& from, LayerCounters* to, Combine combine) {
  CounterArray a, b;
  __builtin_memcpy(&a, &from, sizeof a);
  __builtin_memcpy(&b, to, sizeof b);
  for (size_t i = 0; i < kCounters; ++i) b[i] = combine(a[i], b[i]);
  __builtin_memcpy(to, &b, sizeof b);
}

}  // namespace

TimeTotals& TimeTotals::operator+=(const TimeTotals& other) {
  for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
  sum_seconds = InNanoseconds(sum_seconds + other.sum_seconds);
  return *this;
}

TimeTotals& TimeTotals::operator+=(const dataplane::TimeHistogram::Snapshot& other) {
  for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
  sum_seconds = InNanoseconds(sum_seconds + other.sum_seconds);
  return *this;
}

SessionTotals& SessionTotals::operator+=(const SessionTotals& other) {
  steps += other.steps;
  rows += other.rows;
  if (layers.size() < other.layers.size()) layers.resize(other.layers.size());
  for (size_t layer = 0; layer < other.layers.size(); ++layer) {
    ForEachCounter(other.layers[layer], &layers[layer],
                   [](uint64_t more, uint64_t sum) { return sum + more; });
  }
  for (int reason = 0; reason < kFallbackReasons; ++reason) {
    fallback_rows[reason] += other.fallback_rows[reason];
  }
  predict_time += other.predict_time;
  observe_time += other.observe_time;
  return *this;
}

uint64_t Raised(uint64_t now, uint64_t total) {
  return now > total && now <= kBelievable ? now : total;
}

void RaiseTo(const LayerCounters& now, LayerCounters* total) { ForEachCounter(now, total, Raised); }

void RaiseTo(const v1::TimeHistogram& now, TimeTotals* total) {
  const size_t count = std::min<size_t>(now.buckets_size(), total->buckets.size());
  for (size_t i = 0; i < count; ++i) {
    total->buckets[i] = Raised(now.buckets(static_cast<int>(i)), total->buckets[i]);
  }
  const bool believable = now.sum_seconds() <= kBelievableSeconds;  // false for NaN
  if (believable) {
    total->sum_seconds = std::max(total->sum_seconds, InNanoseconds(now.sum_seconds()));
  }
}

}  // namespace spin::server

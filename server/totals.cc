// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/totals.h"

#include <algorithm>
#include <cmath>

namespace spin::server {
namespace {

using kernels::LayerAudits;
using kernels::LayerCounters;

// What exceeds these was never counted: some writer went astray. They leave room for sums over many
// sessions.
constexpr uint64_t kBelievable = uint64_t{1} << 58;
constexpr double kBelievableSeconds = 1e12;

// Sums of doubles depend on their order, and a total that shrinks by its last bit looks like a
// restart. Whole nanoseconds add up alike in any order.
double InNanoseconds(double seconds) { return std::nearbyint(seconds * 1e9) / 1e9; }

// Every field of both is a uint64_t total; seen as an array, so that none is forgotten.
template <typename Counters, typename Combine>
void ForEachCounter(const Counters& from, Counters* to, Combine combine) {
  std::array<uint64_t, sizeof(Counters) / sizeof(uint64_t)> a, b;
  static_assert(sizeof a == sizeof(Counters));
  __builtin_memcpy(&a, &from, sizeof a);
  __builtin_memcpy(&b, to, sizeof b);
  for (size_t i = 0; i < a.size(); ++i) b[i] = combine(a[i], b[i]);
  __builtin_memcpy(to, &b, sizeof b);
}

template <typename Counters>
void AddUp(const std::vector<Counters>& more, std::vector<Counters>* sum) {
  if (sum->size() < more.size()) sum->resize(more.size());
  for (size_t layer = 0; layer < more.size(); ++layer) {
    ForEachCounter(more[layer], &(*sum)[layer], [](uint64_t a, uint64_t b) { return a + b; });
  }
}

void AddUp(const std::vector<uint64_t>& more, std::vector<uint64_t>* sum) {
  if (sum->size() < more.size()) sum->resize(more.size());
  for (size_t layer = 0; layer < more.size(); ++layer) (*sum)[layer] += more[layer];
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
  AddUp(other.layers, &layers);
  AddUp(other.audits, &audits);
  AddUp(other.miss_millionths, &miss_millionths);
  for (int reason = 0; reason < kFallbackReasons; ++reason) {
    fallback_rows[reason] += other.fallback_rows[reason];
  }
  predict_time += other.predict_time;
  observe_time += other.observe_time;
  budget_changes += other.budget_changes;
  budget_fallbacks += other.budget_fallbacks;
  return *this;
}

uint64_t Raised(uint64_t now, uint64_t total) {
  return now > total && now <= kBelievable ? now : total;
}

void RaiseTo(const LayerCounters& now, LayerCounters* total) { ForEachCounter(now, total, Raised); }
void RaiseTo(const LayerAudits& now, LayerAudits* total) { ForEachCounter(now, total, Raised); }

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

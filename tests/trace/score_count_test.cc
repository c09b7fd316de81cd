// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/score_count.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "tests/trace/random_trace.h"

namespace spin::trace {
namespace {

constexpr TraceShape kShape = {2, 40, 6, 2, 5};
constexpr int kFirst = 34;  // slots that the first step sees beside its own

ScoreCount Count(const Trace& trace, int steps) {
  const auto count = CountScores(trace, steps, [] { return absl::OkStatus(); });
  EXPECT_TRUE(count.ok()) << count.status();
  return count.value_or(ScoreCount());
}

TEST(ScoreCountTest, FiniteValuesGiveFiniteScores) {
  const ScoreCount count = Count(RandomTrace(kShape, 1), 2);
  EXPECT_EQ(count.all, 2 * (35 + 36));
  EXPECT_EQ(count.nan + count.infinite, 0);
  EXPECT_EQ(count.BadShare(), 0);
}

TEST(ScoreCountTest, AKeysScaleSpoilsThatKeyInEveryStep) {
  Trace trace = RandomTrace(kShape, 1);
  trace.k_scale[3] = std::nanf("");
  EXPECT_EQ(Count(trace, 6).nan, 6);
  trace.k_scale[3] = 1;
  trace.k_scale[kShape.slots + kFirst + 5] = std::nanf("");  // only the last step sees it
  EXPECT_EQ(Count(trace, 5).nan, 0);
  EXPECT_EQ(Count(trace, 6).nan, 1);
}

TEST(ScoreCountTest, AWeightSpoilsTheScoresOfItsQuery) {
  Trace trace = RandomTrace(kShape, 1);
  trace.k.assign(trace.k.size(), 0x38);  // 1
  trace.q.assign(trace.q.size(), 0x38);
  trace.w.assign(trace.w.size(), 1);
  trace.k_scale.assign(trace.k_scale.size(), 1);
  trace.w[0] = std::nanf("");
  const ScoreCount count = Count(trace, 6);
  EXPECT_EQ(count.nan, kFirst + 1);
  EXPECT_DOUBLE_EQ(count.BadShare(), 35.0 / static_cast<double>(count.all));
}

TEST(ScoreCountTest, SumsThatOverflowAreInfinite) {
  Trace trace = RandomTrace(kShape, 1);
  trace.k.assign(trace.k.size(), 0x38);
  trace.q.assign(trace.q.size(), 0x38);
  trace.w.assign(trace.w.size(), 1);
  trace.k_scale.assign(trace.k_scale.size(), std::numeric_limits<float>::max());
  const ScoreCount count = Count(trace, 6);
  EXPECT_EQ(count.infinite, count.all);
  EXPECT_EQ(count.BadShare(), 1);
}

TEST(ScoreCountTest, CanBeEnded) {
  Trace trace = RandomTrace(kShape, 1);
  trace.w[0] = std::nanf("");
  const auto count = CountScores(trace, 6, [] { return absl::CancelledError("enough"); });
  EXPECT_TRUE(absl::IsCancelled(count.status()));
}

}  // namespace
}  // namespace spin::trace

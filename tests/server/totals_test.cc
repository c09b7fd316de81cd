// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/totals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace spin::server {
namespace {

TEST(TotalsTest, ACounterThatWentBackwardIsNotBelieved) {
  kernels::LayerCounters total = {};
  RaiseTo({.considered_blocks = 10, .predicted_blocks = 5}, &total);
  RaiseTo({.considered_blocks = 3, .predicted_blocks = 7}, &total);
  EXPECT_EQ(total.considered_blocks, 10u);
  EXPECT_EQ(total.predicted_blocks, 7u);
}

TEST(TotalsTest, ReportedTimesStayFiniteAndMonotonic) {
  TimeTotals total;
  v1::TimeHistogram report;
  report.add_buckets(3);
  report.set_sum_seconds(1.5);
  RaiseTo(report, &total);
  for (double bad : {std::nan(""), std::numeric_limits<double>::infinity(), -2.0, 0.5}) {
    report.set_sum_seconds(bad);
    RaiseTo(report, &total);
    EXPECT_EQ(total.sum_seconds, 1.5);
  }
  EXPECT_EQ(total.buckets[0], 3u);
}

TEST(TotalsTest, MoreBucketsThanThereAreAreIgnored) {
  TimeTotals total;
  v1::TimeHistogram report;
  for (int i = 0; i < 1000; ++i) report.add_buckets(1);
  RaiseTo(report, &total);
  EXPECT_EQ(total.buckets.back(), 1u);
}

TEST(TotalsTest, MissesOfSessionsAddUp) {
  SessionTotals one;
  one.miss_millionths = {5, 7};
  SessionTotals other;
  other.miss_millionths = {1};
  other += one;
  EXPECT_EQ(other.miss_millionths, (std::vector<uint64_t>{6, 7}));
}

TEST(TotalsTest, AddingTakesTheLongerListOfLayers) {
  SessionTotals sum, two_layers;
  two_layers.layers.resize(2);
  two_layers.layers[1].full_blocks = 4;
  two_layers.steps = 1;
  two_layers.fallback_rows[v1::FALLBACK_REASON_COLD] = 2;
  sum += two_layers;
  sum += two_layers;
  ASSERT_EQ(sum.layers.size(), 2u);
  EXPECT_EQ(sum.layers[1].full_blocks, 8u);
  EXPECT_EQ(sum.steps, 2u);
  EXPECT_EQ(sum.fallback_rows[v1::FALLBACK_REASON_COLD], 4u);
}

}  // namespace
}  // namespace spin::server

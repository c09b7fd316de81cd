// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/quantile.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace spin::trace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(MeanTest, IsTheSumOverTheCount) {
  EXPECT_EQ(Mean(std::vector<double>{1, 2, 6}), 3.0);
  EXPECT_EQ(Mean(std::vector<float>{-1, 0.5f}), -0.25);
}

TEST(MeanTest, OfFloatsSumsInDouble) {
  std::vector<float> values(1 << 20, 1.0f);
  values[0] = 1e9f;  // in float, the ones would be lost
  EXPECT_EQ(Mean(values), (1e9 + ((1 << 20) - 1)) / (1 << 20));
}

TEST(MeanTest, OfNothingIsNan) { EXPECT_TRUE(std::isnan(Mean(std::vector<double>()))); }

// The values that numpy.percentile gives.
TEST(PercentileTest, InterpolatesLinearly) {
  const std::vector<double> values = {15, 20, 35, 40, 50};
  EXPECT_EQ(Percentile(values, 0), 15);
  EXPECT_DOUBLE_EQ(Percentile(values, 5), 16);
  EXPECT_DOUBLE_EQ(Percentile(values, 30), 23);
  EXPECT_DOUBLE_EQ(Percentile(values, 40), 29);
  EXPECT_EQ(Percentile(values, 50), 35);
  EXPECT_DOUBLE_EQ(Percentile(values, 99), 49.6);
  EXPECT_EQ(Percentile(values, 100), 50);
}

TEST(PercentileTest, P99OfAHundredLiesBetweenTheLastTwo) {
  std::vector<float> values(100);
  std::iota(values.begin(), values.end(), 1.0f);
  EXPECT_DOUBLE_EQ(Percentile(values, 99), 99.01);
}

TEST(PercentileTest, NeedsNoOrder) {
  const std::vector<double> values = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(Percentile(values, 50), 2.5);
  EXPECT_DOUBLE_EQ(Percentile(values, 25), 1.75);
}

TEST(PercentileTest, OfOneValueIsThatValue) {
  const std::vector<double> values = {7};
  for (const double percent : {0.0, 37.0, 100.0}) EXPECT_EQ(Percentile(values, percent), 7);
}

TEST(PercentileTest, ClampsThePercent) {
  const std::vector<double> values = {1, 2};
  EXPECT_EQ(Percentile(values, -5), 1);
  EXPECT_EQ(Percentile(values, 1e9), 2);
}

TEST(PercentileTest, ANanMakesItNan) {
  EXPECT_TRUE(std::isnan(Percentile(std::vector<double>(), 50)));
  EXPECT_TRUE(std::isnan(Percentile(std::vector<double>{1, kNaN, 3}, 0)));
  EXPECT_TRUE(std::isnan(Percentile(std::vector<double>{1, 2}, kNaN)));
}

TEST(PercentileTest, EqualInfinitiesStay) {
  const std::vector<double> values = {-kInfinity, -kInfinity, 0, kInfinity, kInfinity};
  EXPECT_EQ(Percentile(values, 10), -kInfinity);
  EXPECT_EQ(Percentile(values, 90), kInfinity);
}

}  // namespace
}  // namespace spin::trace

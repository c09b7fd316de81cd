// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/terminal/numbers.h"

#include <gtest/gtest.h>

#include <limits>

#include "client/cli/terminal/bar.h"

namespace spin::cli {
namespace {

TEST(NumbersTest, BytesHaveBinaryUnits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(256ull << 20), "256.0 MiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

TEST(NumbersTest, CountsAreGrouped) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
}

TEST(NumbersTest, WhatIsNoNumberIsADash) {
  EXPECT_EQ(FormatPercent(std::numeric_limits<double>::quiet_NaN(), 1), "-");
  EXPECT_EQ(FormatMicros(std::numeric_limits<double>::infinity()), "-");
  EXPECT_EQ(FormatPercent(0.3984, 1), "39.8 %");
}

TEST(NumbersTest, TimesHaveTheUnitThatFits) {
  EXPECT_EQ(FormatMicros(41.23), "41.2 us");
  EXPECT_EQ(FormatMicros(3140), "3.14 ms");
  EXPECT_EQ(FormatMicros(2.5e6), "2.50 s");
  EXPECT_EQ(FormatAge(absl::Seconds(45)), "45s");
  EXPECT_EQ(FormatAge(absl::Seconds(192)), "3m 12s");
  EXPECT_EQ(FormatAge(absl::Minutes(303)), "5h 03m");
  EXPECT_EQ(FormatAge(absl::Hours(52)), "2d 04h");
  EXPECT_EQ(FormatAge(-absl::Seconds(1)), "0s");  // clocks differ
}

TEST(BarTest, IsClampedAndAlwaysAsWideAsAsked) {
  EXPECT_EQ(Bar(0.5, 4, false), "##..");
  EXPECT_EQ(Bar(-1, 4, false), "....");
  EXPECT_EQ(Bar(7, 4, false), "####");
  EXPECT_EQ(Bar(std::numeric_limits<double>::quiet_NaN(), 2, false), "..");
  EXPECT_EQ(Bar(0.5, 2, true), "█░");
}

TEST(ColumnsTest, ShowsWhatIsNotNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Columns({0, 0.001, 0.5, 1, nan}, 1, false), "0159 ");
  EXPECT_EQ(Columns({0, 1}, 1, true), "▁█");
  EXPECT_EQ(Columns({0.02, 0.01}, 0.02, false), "95");
}

}  // namespace
}  // namespace spin::cli

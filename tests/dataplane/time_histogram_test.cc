// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/time_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

namespace spin::dataplane {
namespace {

uint64_t Count(const TimeHistogram& histogram) {
  const auto buckets = histogram.Read().buckets;
  return std::accumulate(buckets.begin(), buckets.end(), uint64_t{0});
}

size_t BucketOf(absl::Duration duration) {
  TimeHistogram histogram;
  histogram.Add(duration);
  EXPECT_EQ(Count(histogram), 1);
  const auto buckets = histogram.Read().buckets;
  return std::max_element(buckets.begin(), buckets.end()) - buckets.begin();
}

TEST(TimeHistogramTest, BoundsBelongToTheBucketBelow) {
  EXPECT_EQ(BucketOf(absl::Microseconds(5)), 0);
  EXPECT_EQ(BucketOf(absl::Nanoseconds(5001)), 1);
  EXPECT_EQ(BucketOf(absl::Milliseconds(100)), kTimeBounds.size() - 1);
}

TEST(TimeHistogramTest, LastBucketHoldsWhatLiesAbove) {
  EXPECT_EQ(BucketOf(absl::Milliseconds(101)), kTimeBounds.size());
  EXPECT_EQ(BucketOf(absl::InfiniteDuration()), kTimeBounds.size());
}

TEST(TimeHistogramTest, BoundsAscend) {
  for (size_t i = 1; i < kTimeBounds.size(); ++i) EXPECT_LT(kTimeBounds[i - 1], kTimeBounds[i]);
}

TEST(TimeHistogramTest, SumsSeconds) {
  TimeHistogram histogram;
  histogram.Add(absl::Milliseconds(3));
  histogram.Add(absl::Nanoseconds(1));
  EXPECT_DOUBLE_EQ(histogram.Read().sum_seconds, 0.003000001);
}

TEST(TimeHistogramTest, ClockThatStepsBackCountsAsZero) {
  TimeHistogram histogram;
  histogram.Add(absl::Milliseconds(-3));
  histogram.Add(absl::Milliseconds(3));
  EXPECT_EQ(histogram.Read().buckets[0], 1);
  EXPECT_DOUBLE_EQ(histogram.Read().sum_seconds, 0.003);
}

TEST(TimeHistogramTest, ReaderSeesCountsThatOnlyGrow) {
  TimeHistogram histogram;
  std::thread writer([&] {
    for (int i = 0; i < 10000; ++i) histogram.Add(absl::Microseconds(i));
  });
  uint64_t seen = 0;
  while (seen < 10000) {
    const uint64_t count = Count(histogram);
    EXPECT_GE(count, seen);
    seen = count;
  }
  writer.join();
}

}  // namespace
}  // namespace spin::dataplane

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/quality.h"

#include <gtest/gtest.h>

namespace spin::cli {
namespace {

Verdict Miss(int missed) {
  Verdict verdict;
  verdict.considered_blocks = 10;
  verdict.kept_blocks = 6;
  verdict.considered_slots = 640;
  verdict.kept_slots = 384;
  verdict.truth = 100;
  verdict.missed = missed;
  verdict.found = 100 - missed;
  return verdict;
}

TEST(QualityMeterTest, SharesAreOfWhatWasConsidered) {
  QualityMeter meter;
  meter.Add(Miss(0));
  meter.Add(Miss(10));
  const Quality quality = meter.Read();
  EXPECT_DOUBLE_EQ(quality.miss_mean, 0.05);
  EXPECT_DOUBLE_EQ(quality.recall, 0.95);
  EXPECT_DOUBLE_EQ(quality.realized_sparsity, 0.4);
  EXPECT_EQ(meter.kept_slots(), 768);
}

TEST(QualityMeterTest, P99InterpolatesOverAllPairsOfTheTotal) {
  QualityMeter total;
  for (int layer = 0; layer < 2; ++layer) {
    QualityMeter meter;
    for (int step = 0; step < 51; ++step) meter.Add(Miss(layer * 51 + step));
    total.Add(meter);
  }
  // 102 values 0.00 to 1.01; rank 101 * 0.99 = 99.99
  EXPECT_NEAR(total.Read().miss_p99, 0.9999, 1e-12);
}

}  // namespace
}  // namespace spin::cli

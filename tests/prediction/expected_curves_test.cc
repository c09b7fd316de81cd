// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/expected_curves.h"

#include <gtest/gtest.h>

#include <cmath>

#include "calibration/allocation.h"

namespace spin::prediction {
namespace {

using calibration::MissCurve;

// A knee at the keep share `share`: logistic in the log-odds of what is kept, as steep as `slope`.
std::vector<double> Knee(double share, double slope) {
  std::vector<double> miss;
  for (const double sparsity : CurveSparsities()) {
    const double odds = std::log((1 - sparsity) / sparsity) - std::log(share / (1 - share));
    miss.push_back(1 / (1 + std::exp(slope * odds)));
  }
  return miss;
}

TEST(ExpectedCurvesTest, OneTraceWithoutSpreadIsWhatWasMeasured) {
  const LayerCurves curves = {{Knee(0.3, 4), Knee(0.6, 2)}};
  const LayerCurves* const traces[] = {&curves};
  const auto expected = ExpectedCurves(traces, 0);
  ASSERT_EQ(expected.size(), 2u);
  for (size_t layer = 0; layer < 2; ++layer) {
    for (size_t i = 0; i < CurveSparsities().size(); ++i) {
      const double sparsity = CurveSparsities()[i];
      EXPECT_NEAR(expected[layer].Miss(1 - sparsity), curves.miss[layer][i], 0.01) << sparsity;
    }
  }
}

TEST(ExpectedCurvesTest, KneeLiesBetweenThoseOfTheTraces) {
  const LayerCurves low = {{Knee(0.2, 20)}}, high = {{Knee(0.4, 20)}};
  const LayerCurves* const traces[] = {&low, &high};
  const MissCurve expected = ExpectedCurves(traces, 0)[0];
  EXPECT_GT(expected.Miss(0.2), 0.9);
  EXPECT_LT(expected.Miss(0.4), 0.1);
  EXPECT_NEAR(expected.Miss(0.29), 0.5, 0.1);  // even log-odds: 1 / (1 + sqrt(4 * 1.5))
}

TEST(ExpectedCurvesTest, SpreadFillsTheFlatPartsBesideTheKneeAndNeverRises) {
  const LayerCurves curves = {{Knee(0.3, 30)}};
  const LayerCurves* const traces[] = {&curves};
  const MissCurve sharp = ExpectedCurves(traces, 0)[0], wide = ExpectedCurves(traces, 0.4)[0];
  EXPECT_GT(wide.Miss(0.4), sharp.Miss(0.4) + 0.1);
  EXPECT_LT(wide.Miss(0.2), sharp.Miss(0.2) - 0.1);
  const std::vector<double> misses = wide.Misses(0);
  for (size_t i = 1; i < misses.size(); ++i) EXPECT_LE(misses[i], misses[i - 1]);
  EXPECT_NEAR(misses.front(), 1, 1e-9);
  EXPECT_EQ(misses.back(), 0);
}

TEST(ExpectedCurvesTest, SteepLayersGetRoomAboveTheirKnee) {
  const LayerCurves curves = {{Knee(0.2, 30), Knee(0.2, 2)}};
  const LayerCurves* const traces[] = {&curves};
  const auto keep = [&](double spread) {
    return 1 -
           calibration::AllocateAtSparsity(ExpectedCurves(traces, spread), 0.6, {})->sparsity[0];
  };
  EXPECT_GT(keep(0.3), keep(0) + 0.02);
}

TEST(ExpectedCurvesTest, SpreadIsTypicalForOneTraceAndMeasuredForMore) {
  const auto shifted = [](double log_odds) {
    return LayerCurves{{Knee(1 / (1 + std::exp(-log_odds)), 8)}};
  };
  const LayerCurves a = shifted(-0.8), b = shifted(0.8), c = shifted(0);
  const LayerCurves* const one[] = {&a};
  EXPECT_EQ(SpreadOfTexts(one), kTypicalSpread);
  const LayerCurves* const same[] = {&a, &a, &a, &a};
  EXPECT_NEAR(SpreadOfTexts(same), kTypicalSpread / 2, 1e-6);
  const LayerCurves* const three[] = {&a, &b, &c};  // variance 0.64
  EXPECT_NEAR(SpreadOfTexts(three), std::sqrt((0.09 + 2 * 0.64) / 3), 0.05);
}

}  // namespace
}  // namespace spin::prediction

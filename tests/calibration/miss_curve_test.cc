// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "calibration/miss_curve.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace spin::calibration {
namespace {

TEST(MissCurveTest, EqualsCountingAtEveryBudgetOfAContext) {
  std::mt19937_64 random(1);
  for (const int blocks : {16, 64, 128, 256}) {
    MissCurve curve;
    std::vector<int> slots_of_rank(blocks, 0);
    for (int i = 0; i < 500; ++i) {
      const int rank = static_cast<int>(random() % blocks * (random() % blocks) / blocks);
      curve.AddSlot(rank, blocks);
      ++slots_of_rank[rank];
    }
    int outside = 500;
    for (int kept = 0; kept <= blocks; ++kept) {
      EXPECT_NEAR(curve.Miss(static_cast<double>(kept) / blocks), outside / 500.0, 1e-12)
          << kept << " of " << blocks;
      if (kept < blocks) outside -= slots_of_rank[kept];
    }
  }
}

TEST(MissCurveTest, IsOffByNoMoreThanABinWhereBinsHoldSeveralBlocks) {
  std::mt19937_64 random(2);
  constexpr int kBlocks = 1000;
  MissCurve curve;
  std::vector<int> ranks;
  for (int i = 0; i < 2000; ++i) {
    ranks.push_back(static_cast<int>(random() % kBlocks));
    curve.AddSlot(ranks.back(), kBlocks);
  }
  for (int kept = 0; kept <= kBlocks; kept += 10) {
    const auto outside =
        std::count_if(ranks.begin(), ranks.end(), [=](int r) { return r >= kept; });
    EXPECT_NEAR(curve.Miss(kept / 1000.0), outside / 2000.0, 1.5 / kernels::kRankBins) << kept;
  }
}

// A list that draws e of its m blocks at random misses what lies outside its best m - e, except for
// the share e / (B - m + e) of it.
TEST(MissCurveTest, ExplorationTradesBestForRandom) {
  MissCurve curve;
  for (int rank = 0; rank < 256; ++rank) curve.AddSlot(rank, 256);
  const double best = 128 * 0.9;
  const double drawn = 12.8 / (256 - best);
  EXPECT_NEAR(curve.Miss(0.5, 0.1), (1 - best / 256) * (1 - drawn), 1e-12);
  EXPECT_NEAR(curve.Miss(0.5, 1), 0.5, 1e-12);
  EXPECT_EQ(curve.Miss(1, 0.1), 0);
}

TEST(MissCurveTest, NeverRisesWithTheBudget) {
  std::mt19937_64 random(3);
  for (const double exploration : {0.0, 0.05, 0.5}) {
    MissCurve curve;
    for (int i = 0; i < 100; ++i) curve.AddSlot(static_cast<int>(random() % 77), 77);
    double last = 1;
    for (double keep = 0; keep <= 1; keep += 0.003) {
      const double miss = curve.Miss(keep, exploration);
      EXPECT_LE(miss, last + 1e-12) << keep;
      EXPECT_GE(miss, 0) << keep;
      last = miss;
    }
  }
}

TEST(MissCurveTest, WithoutSlotsEveryRankIsEquallyLikely) {
  EXPECT_NEAR(MissCurve().Miss(0.3), 0.7, 1e-12);
}

TEST(MissCurveTest, DecayForgetsTheOlderHalfSooner) {
  MissCurve curve;
  curve.AddSlot(255, 256);
  curve.Decay(0.5);
  curve.AddSlot(0, 256);
  EXPECT_DOUBLE_EQ(curve.slots(), 1.5);
  EXPECT_NEAR(curve.Miss(0.5), 0.5 / 1.5, 1e-12);
}

TEST(MissCurveTest, HistogramsAddUpLikeTheirSlots) {
  MissCurve slots, bins;
  std::vector<uint64_t> histogram(kernels::kRankBins, 0);
  for (int rank = 0; rank < 100; rank += 3) {
    slots.AddSlot(rank, 100);
    ++histogram[kernels::RankBin(rank, 100)];
  }
  bins.Add(histogram);
  for (double keep = 0; keep <= 1; keep += 0.1) EXPECT_EQ(slots.Miss(keep), bins.Miss(keep));
}

}  // namespace
}  // namespace spin::calibration

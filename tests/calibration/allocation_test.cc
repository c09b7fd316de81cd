// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "calibration/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "absl/strings/match.h"

namespace spin::calibration {
namespace {

using kernels::kRankBins;

// Slots that thin out with the rank; the larger `steepness`, the more predictable the layer.
MissCurve Predictable(double steepness) {
  std::vector<uint64_t> bins(kRankBins);
  for (int i = 0; i < kRankBins; ++i) {
    bins[i] = static_cast<uint64_t>(1e6 * std::exp(-steepness * i / kRankBins));
  }
  MissCurve curve;
  curve.Add(bins);
  return curve;
}

MissCurve Random(std::mt19937_64& random) {
  MissCurve curve;
  const int spread = 1 + static_cast<int>(random() % kRankBins);
  for (int i = 0; i < 300; ++i) curve.AddSlot(static_cast<int>(random() % spread), kRankBins);
  return curve;
}

TEST(AllocationTest, EqualsBruteForceOnConvexCurves) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 10; ++trial) {
    std::vector<MissCurve> layers;
    for (int i = 0; i < 3; ++i)
      layers.push_back(Predictable(static_cast<double>(random() % 400) / 10));
    const int units = 60 + static_cast<int>(random() % 400);  // of all layers together
    double best = 3;
    for (int a = 1; a <= kRankBins; ++a) {
      for (int b = 1; b <= kRankBins; ++b) {
        const int c = units - a - b;
        if (c < 1 || c > kRankBins) continue;
        best = std::min(best, layers[0].Miss(a / 256.0) + layers[1].Miss(b / 256.0) +
                                  layers[2].Miss(c / 256.0));
      }
    }
    const auto found = AllocateAtSparsity(layers, 1 - units / 768.0, {});
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_NEAR(found->expected_miss, best / 3, 1e-9) << units;
  }
}

TEST(AllocationTest, KeepsTheTotalAndBeatsUniformOnRandomCurves) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<MissCurve> layers;
    for (size_t i = 0; i < 1 + random() % 8; ++i) layers.push_back(Random(random));
    const double total = static_cast<double>(random() % 950) / 1000;
    const AllocationLimits limits = {.min_keep = 0.02, .exploration = 0.05};
    const auto found = AllocateAtSparsity(layers, total, limits);
    const auto uniform = UniformAtSparsity(layers, total, limits);
    ASSERT_TRUE(found.ok() && uniform.ok());
    EXPECT_NEAR(found->total_sparsity, total, 1e-9);
    EXPECT_LE(found->expected_miss, uniform->expected_miss + 0.01);  // one unit of a bumpy curve
    for (const double sparsity : found->sparsity) {
      EXPECT_GE(sparsity, 0);
      EXPECT_LE(sparsity, 0.98 + 1e-9);
    }
  }
}

TEST(AllocationTest, HoldsTheTargetMissAtTheHighestTotal) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<MissCurve> layers;
    for (size_t i = 0; i < 1 + random() % 8; ++i) {
      layers.push_back(Predictable(static_cast<double>(random() % 400) / 10));
    }
    const double target = static_cast<double>(random() % 200) / 1000;
    const auto found = AllocateAtMiss(layers, target, {.exploration = 0.05});
    ASSERT_TRUE(found.ok());
    EXPECT_LE(found->expected_miss, target + 1e-9);
    const auto same_total = AllocateAtSparsity(layers, std::min(1.0, found->total_sparsity + 0.01),
                                               {.exploration = 0.05});
    if (found->total_sparsity < 0.98) {
      EXPECT_GT(same_total->expected_miss, target - 1e-9);
    }
    const auto uniform = UniformAtMiss(layers, target, {.exploration = 0.05});
    ASSERT_TRUE(uniform.ok());
    EXPECT_LE(uniform->expected_miss, target + 1e-9);
    EXPECT_GE(found->total_sparsity, uniform->total_sparsity - 0.005);
  }
}

TEST(AllocationTest, UnpredictableLayersGetMore) {
  const auto found =
      AllocateAtSparsity(std::vector<MissCurve>{Predictable(3), Predictable(30)}, 0.6, {});
  ASSERT_TRUE(found.ok());
  EXPECT_LT(found->sparsity[0], 0.5);
  EXPECT_GT(found->sparsity[1], 0.7);
}

TEST(AllocationTest, FindsAGainThatComesLate) {
  MissCurve late, early;
  for (int i = 0; i < 100; ++i) late.AddSlot(100, 256);
  for (int i = 0; i < 100; ++i) early.AddSlot(i % 10, 256);
  const auto found = AllocateAtSparsity(std::vector<MissCurve>{late, early}, 0.75, {});
  ASSERT_TRUE(found.ok());
  EXPECT_NEAR(found->expected_miss, 0, 1e-9);
}

TEST(AllocationTest, WithNothingLeftToGainTheRestIsSharedEqually) {
  MissCurve one, two;
  for (int i = 0; i < 10; ++i) one.AddSlot(0, 256);
  for (int i = 0; i < 10; ++i) two.AddSlot(40, 256);
  const auto found = AllocateAtSparsity(std::vector<MissCurve>{one, two}, 0.5, {});
  ASSERT_TRUE(found.ok());
  EXPECT_NEAR(found->sparsity[0], found->sparsity[1], 1.0 / kRankBins);
}

TEST(AllocationTest, CurvesWithoutDataAreUniform) {
  const auto found = AllocateAtSparsity(std::vector<MissCurve>(3), 0.7, {});
  ASSERT_TRUE(found.ok());
  for (const double sparsity : found->sparsity) EXPECT_NEAR(sparsity, 0.7, 1.0 / kRankBins);
}

TEST(AllocationTest, MinKeepCapsTheTotal) {
  const auto found =
      AllocateAtSparsity(std::vector<MissCurve>(2), 0.95, {.min_keep = 0.25, .exploration = 0});
  ASSERT_TRUE(found.ok());
  EXPECT_NEAR(found->total_sparsity, 0.75, 1e-9);
}

TEST(AllocationTest, RefusesWhatIsOutOfRangeByName) {
  const std::vector<MissCurve> one(1);
  EXPECT_TRUE(absl::StrContains(AllocateAtSparsity({}, 0.5, {}).status().message(), "layers"));
  EXPECT_TRUE(absl::StrContains(AllocateAtSparsity(one, 1.5, {}).status().message(),
                                "total_sparsity is 1.5"));
  EXPECT_TRUE(
      absl::StrContains(AllocateAtMiss(one, std::nan(""), {}).status().message(), "target_miss"));
  EXPECT_TRUE(
      absl::StrContains(AllocateAtMiss(one, 0.1, {.min_keep = -1}).status().message(), "min_keep"));
  EXPECT_TRUE(absl::StrContains(AllocateAtMiss(one, 0.1, {.exploration = 2}).status().message(),
                                "exploration"));
}

TEST(ShrunkTest, FewSlotsFollowThePoolAndManyTheirOwn) {
  std::vector<MissCurve> layers(2);
  for (int i = 0; i < 10; ++i) layers[0].AddSlot(0, 256);
  for (int i = 0; i < 10; ++i) layers[1].AddSlot(200, 256);
  EXPECT_NEAR(Shrunk(layers, 0)[0].Miss(0.5), 0, 1e-12);
  EXPECT_NEAR(Shrunk(layers, 1e9)[0].Miss(0.5), 0.5, 1e-6);
  EXPECT_NEAR(Shrunk(layers, 10)[0].Miss(0.5), 0.25, 1e-12);
}

}  // namespace
}  // namespace spin::calibration

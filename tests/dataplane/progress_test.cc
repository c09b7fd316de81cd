// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/progress.h"

#include <gtest/gtest.h>

namespace spin::dataplane {

std::ostream& operator<<(std::ostream& out, const RowVerdict& verdict) {
  return out << "fault " << static_cast<int>(verdict.fault) << " of " << verdict.field;
}
bool operator==(const RowVerdict& a, const RowVerdict& b) {
  return a.fault == b.fault && a.field == b.field;
}

namespace {

using kernels::Coverage;

constexpr kernels::Geometry kGeometry = {1, 64, 512, 1, kernels::Dtype::kF32};
constexpr kernels::Geometry kFourTokens = {1, 64, 512, 4, kernels::Dtype::kF32};
constexpr Progress kCold = {};
constexpr Progress kWarm = {.warm = true, .next_position = 100};
constexpr int64_t kCapacity = 4096;

RowVerdict Scored(const Progress& progress, int64_t position, Coverage coverage = Coverage::kKept,
                  bool resync = false) {
  return CheckScored(progress, kCapacity, kGeometry, position, 2, coverage, resync);
}

RowVerdict Next(const Progress& progress, int64_t position) {
  return CheckNext(progress, kCapacity, kGeometry, position, 2);
}

TEST(CheckScoredTest, WarmRequestGoesOnWhereItStopped) {
  EXPECT_EQ(Scored(kWarm, 100, Coverage::kKept), RowVerdict{});
  EXPECT_EQ(Scored(kWarm, 100, Coverage::kAll), RowVerdict{});
}

TEST(CheckScoredTest, ColdRequestStartsAnywhereIfScoredInFull) {
  EXPECT_EQ(Scored(kCold, 0, Coverage::kAll), RowVerdict{});
  EXPECT_EQ(Scored(kCold, 3000, Coverage::kAll), RowVerdict{});
}

TEST(CheckScoredTest, ColdRequestHasNoList) {
  EXPECT_EQ(Scored(kCold, 0, Coverage::kKept), (RowVerdict{RowFault::kStaleList, "coverage"}));
}

TEST(CheckScoredTest, PositionNeverGoesBackward) {
  const RowVerdict backward = {RowFault::kPosition, "position"};
  EXPECT_EQ(Scored(kWarm, 99, Coverage::kKept), backward);
  EXPECT_EQ(Scored(kWarm, 99, Coverage::kAll, true), backward);
}

TEST(CheckScoredTest, OnlyAFullyScoredResyncJumps) {
  const RowVerdict jump = {RowFault::kPosition, "position"};
  EXPECT_EQ(Scored(kWarm, 101, Coverage::kAll, false), jump);
  EXPECT_EQ(Scored(kWarm, 101, Coverage::kKept, true), jump);
  EXPECT_EQ(Scored(kWarm, 101, Coverage::kAll, true), RowVerdict{});
}

TEST(CheckScoredTest, PositionIsWithinItsRange) {
  const RowVerdict invalid = {RowFault::kInvalidField, "position"};
  EXPECT_EQ(Scored(kCold, -1, Coverage::kAll), invalid);
  EXPECT_EQ(Scored(kCold, kMaxPosition + 1, Coverage::kAll), invalid);
  EXPECT_EQ(CheckScored(kCold, int64_t{1} << 40, kGeometry, kMaxPosition, 1, Coverage::kAll, false),
            RowVerdict{});
}

TEST(CheckScoredTest, LastVerifierRowMustFit) {
  EXPECT_EQ(Scored(kCold, kCapacity - 2, Coverage::kAll), RowVerdict{});
  EXPECT_EQ(Scored(kCold, kCapacity - 1, Coverage::kAll),
            (RowVerdict{RowFault::kCapacity, "position"}));
}

TEST(CheckScoredTest, SlotOfTheQueryMustFitThoughItIsNotWhole) {
  const auto at = [](int64_t position) {
    return CheckScored(kCold, 10, kFourTokens, position, 1, Coverage::kAll, false);
  };
  EXPECT_EQ(at(39), RowVerdict{});                                   // 10 slots, query slot 9
  EXPECT_EQ(at(40), (RowVerdict{RowFault::kCapacity, "position"}));  // 10 slots, query slot 10
}

TEST(CheckNextTest, WarmRequestIsPredictedForItsNextPositionOnly) {
  const RowVerdict elsewhere = {RowFault::kPosition, "next_position"};
  EXPECT_EQ(Next(kWarm, 100), RowVerdict{});
  EXPECT_EQ(Next(kWarm, 99), elsewhere);
  EXPECT_EQ(Next(kWarm, 101), elsewhere);
}

TEST(CheckNextTest, ColdRequestIsPredictedForAnyPosition) {
  EXPECT_EQ(Next(kCold, 0), RowVerdict{});
  EXPECT_EQ(Next(kCold, 3000), RowVerdict{});
}

TEST(CheckNextTest, PositionIsWithinItsRange) {
  const RowVerdict invalid = {RowFault::kInvalidField, "next_position"};
  EXPECT_EQ(Next(kCold, -1), invalid);
  EXPECT_EQ(Next(kCold, kMaxPosition + 1), invalid);
}

TEST(CheckNextTest, LastVerifierRowMustFit) {
  EXPECT_EQ(Next(kCold, kCapacity - 2), RowVerdict{});
  EXPECT_EQ(Next(kCold, kCapacity - 1), (RowVerdict{RowFault::kCapacity, "next_position"}));
}

}  // namespace
}  // namespace spin::dataplane

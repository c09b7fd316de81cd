// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/counters.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernels/test_session.h"

// How Observe counts; audits are in audit_test.cc, ignored scores in nonfinite_test.cc.
namespace spin::kernels {
namespace {

class CountersTest : public DeviceTest {
 protected:
  static constexpr Geometry kGeometry = {2, 16, 16, 1, Dtype::kF32};

  static ScoreTensor Ones(int32_t rows, int64_t slots) {
    ScoreTensor scores(2, rows, 1, slots);
    std::fill(scores.values.begin(), scores.values.end(), 1.0f);
    return scores;
  }
};
SPIN_TEST_ON_EVERY_DEVICE(CountersTest);

TEST_P(CountersTest, KeptBlocksAreCountedBySource) {
  TestSession session(device_, {.geometry = kGeometry});
  session.Open(0, 1000);
  Policy policy = Skip(0.4);
  policy.exploration = 0.1;
  policy.pin_first_block = 1;
  const Row row = RowAt(794);  // 50 blocks, the last of 11 slots
  session.Predict({row});
  session.Select({row}, policy);
  ScoredRow scored = ScoredAt(794);
  scored.coverage = Coverage::kKept;
  session.Observe({scored}, Ones(1, 800), 0.5);
  for (const int32_t layer : {0, 1}) {
    const LayerCounters counters = session.Counters(layer);
    EXPECT_EQ(counters.considered_blocks, 50);
    EXPECT_EQ(counters.pinned_blocks, 2);
    EXPECT_EQ(counters.explored_blocks, 3);
    EXPECT_EQ(counters.predicted_blocks, 25);
    EXPECT_EQ(counters.full_blocks, 0);
    EXPECT_EQ(counters.scored_slots, 29 * 16 + 11);
    EXPECT_EQ(counters.nonfinite_scores, 0);
  }
}

TEST_P(CountersTest, FullyScoredBlocksAreCountedAsFull) {
  TestSession session(device_, {.geometry = kGeometry});
  session.Open(0, 1000);
  session.Observe({ScoredAt(794)}, Ones(1, 800), 0.5);
  const LayerCounters counters = session.Counters(0);
  EXPECT_EQ(counters.considered_blocks, 50);
  EXPECT_EQ(counters.full_blocks, 50);
  EXPECT_EQ(counters.predicted_blocks, 0);
  EXPECT_EQ(counters.scored_slots, 795);
}

TEST_P(CountersTest, RowsAndStepsAddUp) {
  TestSession session(device_, {.geometry = kGeometry, .max_requests = 2});
  session.Open(0, 1000);
  session.Open(1, 1000);
  ScoredRow other = ScoredAt(159);
  other.request = 1;
  other.score_row = 1;
  session.Observe({ScoredAt(319), other}, Ones(2, 400), 0.5);
  session.Observe({other}, Ones(2, 400), 0.5);
  EXPECT_EQ(session.Counters(1).considered_blocks, 20 + 10 + 10);
  EXPECT_EQ(session.Counters(1).scored_slots, 320 + 160 + 160);
}

TEST_P(CountersTest, LayersThatWereNotLaunchedCountNothing) {
  TestSession session(device_, {.geometry = kGeometry});
  session.Open(0, 1000);
  session.Observe({ScoredAt(159)}, Ones(1, 200), 0.5, {1, 1});
  EXPECT_EQ(session.Counters(0).considered_blocks, 0);
  EXPECT_EQ(session.Counters(1).considered_blocks, 10);
}

}  // namespace
}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>

#include <numeric>

#include "kernels/observe.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/test_session.h"

// Verifier rows (MTP): only accepted ones enter the state, in order.
namespace spin::kernels {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class DraftsTest : public DeviceTest {
 protected:
  // Scores of verifier row d are 1000 d + c.
  static ScoreTensor Numbered(int32_t next_n, int64_t slots) {
    ScoreTensor scores(1, 1, next_n, slots);
    for (int32_t draft = 0; draft < next_n; ++draft) {
      std::iota(scores.At(0, 0, draft), scores.At(0, 0, draft) + slots, 1000.0f * draft);
    }
    return scores;
  }

  static ScoredRow Accepting(uint32_t accepted, int64_t position, uint32_t next_n) {
    ScoredRow row = ScoredAt(position, next_n);
    row.accepted = accepted;
    return row;
  }
};
SPIN_TEST_ON_EVERY_DEVICE(DraftsTest);

TEST_P(DraftsTest, LaterVerifierRowsSeeTheStateOfEarlierOnes) {
  TestSession session(device_, {});
  session.Open(0, 100);
  session.Observe({Accepting(2, 1, 2)}, Numbered(2, 3), 0.5);
  std::vector<float> v = session.V(0, 0);
  v.resize(4);
  EXPECT_THAT(v, ElementsAre(500, 501, 1002, reference::kCold));
  std::vector<float> d = session.D(0, 0);
  d.resize(4);  // row 0 gives distance 0: 1, 1: 0; row 1 gives 0: 1002, 1: 1001, 2: 1000
  EXPECT_THAT(d, ElementsAre(501.5, 500.5, 1000, reference::kCold));
}

TEST_P(DraftsTest, RejectedVerifierRowsNeverEnter) {
  TestSession session(device_, {});
  session.Open(0, 100);
  session.Observe({Accepting(1, 1, 3)}, Numbered(3, 4), 0.5);
  std::vector<float> v = session.V(0, 0);
  v.resize(3);
  EXPECT_THAT(v, ElementsAre(0, 1, reference::kCold));
  EXPECT_EQ(session.Counters(0).scored_slots, 2);
}

TEST_P(DraftsTest, NothingAcceptedLeavesTheState) {
  TestSession session(device_, {});
  session.Open(0, 100);
  session.Observe({Accepting(0, 1, 3)}, Numbered(3, 4), 0.5);
  EXPECT_THAT(session.V(0, 0), Each(reference::kCold));
  EXPECT_THAT(session.D(0, 0), Each(reference::kCold));
}

TEST_P(DraftsTest, AcceptedRowsEqualStepsOfOneRowEach) {
  for (const int32_t tokens_per_slot : {1, 4}) {
    for (uint32_t next_n = 1; next_n <= kMaxNextN; ++next_n) {
      for (uint32_t accepted = 0; accepted <= next_n; ++accepted) {
        const Geometry g = {1, 16, 16, tokens_per_slot, Dtype::kF32};
        TestSession drafted(device_, {.geometry = g});
        TestSession stepped(device_, {.geometry = g});
        drafted.Open(0, 100);
        stepped.Open(0, 100);
        ScoreTensor scores = Numbered(static_cast<int32_t>(next_n), 80);
        drafted.Observe({Accepting(accepted, 62, next_n)}, scores, 0.7);
        for (uint32_t draft = 0; draft < accepted; ++draft) {
          ScoreTensor one(1, 1, 1, 80);
          std::copy_n(scores.At(0, 0, static_cast<int32_t>(draft)), 80, one.At(0, 0));
          stepped.Observe({ScoredAt(62 + draft)}, one, 0.7);
        }
        EXPECT_TRUE(SameBits(drafted.V(0, 0), stepped.V(0, 0))) << next_n << ' ' << accepted;
        EXPECT_TRUE(SameBits(drafted.D(0, 0), stepped.D(0, 0))) << next_n << ' ' << accepted;
      }
    }
  }
}

TEST_P(DraftsTest, EachVerifierRowIsCompactedByTheSameList) {
  TestSession session(device_, {.geometry = {1, 16, 16, 1, Dtype::kF32}});
  session.Open(0, 100);
  // Positions 63 and 64: the last slot of block 3 and the first of block 4 are new.
  const StoredList list = session.SelectFrom({0, 3, 0, 0, 0}, RowAt(63, 2), Skip(0.5));
  ASSERT_THAT(list.blocks, ElementsAre(0, 1, 3, 4));
  ScoredRow row = ScoredAt(63, 2);
  row.coverage = Coverage::kKept;
  session.Observe({row}, Numbered(2, 49), 0.5);
  const std::vector<float> v = session.V(0, 0);
  EXPECT_EQ(v[48], (32 + 1032) / 2.0f);
  EXPECT_EQ(v[63], (47 + 1047) / 2.0f);
  EXPECT_EQ(v[64], 1048);  // seen by the second row only
  EXPECT_EQ(v[32], reference::kCold);
}

}  // namespace
}  // namespace spin::kernels

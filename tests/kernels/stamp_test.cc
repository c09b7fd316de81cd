// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

#include "kernels/observe.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/test_session.h"

// A list is used only under the very stamp that is expected.
namespace spin::kernels {
namespace {

using ::testing::Each;

class StampTest : public DeviceTest {
 protected:
  static constexpr int64_t kPosition = 90;

  void SetUp() override {
    DeviceTest::SetUp();
    if (!device_.exists()) return;
    session_.emplace(device_, SessionOptions{});
    session_->Open(0, 200);
    session_->SetGeneration(0, 5);
    session_->Select({RowAt(kPosition, 2)}, Skip(0));
    for (const int32_t draft : {0, 1}) std::fill_n(scores_.At(0, 0, draft), 92, 1.0f);
  }

  void Restamp(const ListStamp& stamp) {
    ListHeader header = session_->List(0, 0, 0).header;
    header.stamp = stamp;
    session_->SetHeader(0, 0, 0, header);
  }

  // Whether a row that relies on its list is observed.
  bool Observed(int64_t position = kPosition, uint32_t next_n = 2) {
    ScoredRow row = ScoredAt(position, next_n);
    row.coverage = Coverage::kKept;
    session_->Observe({row}, scores_, 0.5);
    return session_->Counters(0).considered_blocks > 0;
  }

  // Whether a row that was scored in full is compared with its list.
  bool Audited() {
    session_->Audit({ScoredAt(kPosition, 2)}, scores_);
    return session_->Counters(0).audited_rows > 0;
  }

  std::optional<TestSession> session_;
  ScoreTensor scores_ = ScoreTensor(1, 1, 2, 92);
};
SPIN_TEST_ON_EVERY_DEVICE(StampTest);

TEST_P(StampTest, ExpectedStampIsTaken) {
  EXPECT_TRUE(Observed());
  EXPECT_TRUE(Audited());
}

TEST_P(StampTest, OtherEpochIsNot) {
  Restamp({TestSession::kEpoch + 1, 5, 2, kPosition});
  EXPECT_FALSE(Observed());
  EXPECT_FALSE(Audited());
}

TEST_P(StampTest, OtherGenerationIsNot) {
  Restamp({TestSession::kEpoch, 4, 2, kPosition});
  EXPECT_FALSE(Observed());
  EXPECT_FALSE(Audited());
}

TEST_P(StampTest, OtherPositionIsNot) {
  Restamp({TestSession::kEpoch, 5, 2, kPosition - 1});
  EXPECT_FALSE(Observed());
  EXPECT_FALSE(Audited());
}

TEST_P(StampTest, OtherNumberOfVerifierRowsIsNot) {
  Restamp({TestSession::kEpoch, 5, 1, kPosition});
  EXPECT_FALSE(Observed());
  EXPECT_FALSE(Audited());
}

TEST_P(StampTest, ListOfAnEarlierGenerationIsNot) {
  session_->SetGeneration(0, 6);
  EXPECT_FALSE(Observed());
  EXPECT_FALSE(Audited());
}

TEST_P(StampTest, SkippedRowLeavesTheState) {
  ASSERT_FALSE(Observed(kPosition + 1));
  EXPECT_THAT(session_->V(0, 0), Each(reference::kCold));
  EXPECT_THAT(session_->D(0, 0), Each(reference::kCold));
  EXPECT_EQ(session_->Counters(0).scored_slots, 0);
}

TEST_P(StampTest, FullyScoredRowNeedsNoList) {
  Restamp({});
  session_->Observe({ScoredAt(kPosition, 2)}, scores_, 0.5);
  EXPECT_EQ(session_->V(0, 0)[0], 1.0f);
}

TEST_P(StampTest, ListInTheOtherBufferIsNotTaken) {
  ScoredRow row = ScoredAt(kPosition, 2);
  row.coverage = Coverage::kKept;
  row.buffer = 1;
  session_->Observe({row}, scores_, 0.5);
  EXPECT_EQ(session_->Counters(0).considered_blocks, 0);
}

TEST_P(StampTest, EachLayerHasItsOwnStamp) {
  const Geometry g = {2, 64, 64, 1, Dtype::kF32};
  TestSession session(device_, {.geometry = g});
  session.Open(0, 200);
  session.Select({RowAt(kPosition)}, Skip(0), {1, 1});  // layer 0 has no list
  ScoreTensor scores(2, 1, 1, 91);
  for (const int32_t layer : {0, 1}) std::fill_n(scores.At(layer, 0), 91, 1.0f);
  ScoredRow row = ScoredAt(kPosition);
  row.coverage = Coverage::kKept;
  session.Observe({row}, scores, 0.5);
  EXPECT_EQ(session.V(0, 0)[0], reference::kCold);
  EXPECT_EQ(session.V(0, 1)[0], 1.0f);
}

}  // namespace
}  // namespace spin::kernels

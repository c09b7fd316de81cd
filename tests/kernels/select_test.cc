// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/select.h"

#include <gmock/gmock.h>

#include <numeric>
#include <random>

#include "kernels/ema.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/test_session.h"

namespace spin::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SelectTest : public DeviceTest {
 protected:
  // Sixteen-slot blocks and a top-K of one block: budgets are small enough to write lists down.
  static constexpr Geometry kSmall = {1, 16, 16, 1, Dtype::kF32};

  StoredList Choose(const std::vector<float>& scores, const Row& row, const Policy& policy) {
    TestSession session(device_, {.geometry = kSmall});
    session.Open(0, 1000);
    return session.SelectFrom(scores, row, policy);
  }
};
SPIN_TEST_ON_EVERY_DEVICE(SelectTest);

TEST_P(SelectTest, KeepsTheBestBlocksInAscendingOrder) {
  const StoredList list = Choose({1, 5, 2, 4, 3, 0}, RowAt(95), Skip(0.5));
  EXPECT_THAT(list.blocks, ElementsAre(1, 3, 5));  // block 5 is the tail
}

TEST_P(SelectTest, SparsityZeroKeepsEveryBlock) {
  for (const int64_t slots : {1, 16, 17, 500, 1000}) {
    const std::vector<float> scores(1000 / 16 + 1, kUnobserved);
    std::vector<int32_t> all(reference::BlockCount(slots, kSmall));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(Choose(scores, RowAt(slots - 1), Skip(0)).blocks, all);
  }
}

TEST_P(SelectTest, TiesGoToTheLowerBlock) {
  EXPECT_THAT(Choose({3, 3, 3, 3, 3, 3}, RowAt(95), Skip(0.5)).blocks, ElementsAre(0, 1, 5));
  EXPECT_THAT(Choose({1, 3, 2, 2, 2, 0}, RowAt(95), Skip(0.5)).blocks, ElementsAre(1, 2, 5));
}

TEST_P(SelectTest, UnobservedBlocksTie) {
  const float cold = kUnobserved;
  EXPECT_THAT(Choose({cold, cold, cold, cold, -9, cold}, RowAt(95), Skip(0.5)).blocks,
              ElementsAre(0, 4, 5));
}

TEST_P(SelectTest, ZerosOfBothSignsTie) {
  EXPECT_THAT(Choose({-1, -0.0f, 0.0f, -0.0f, 0.0f, 0}, RowAt(95), Skip(0.5)).blocks,
              ElementsAre(1, 2, 5));
}

TEST_P(SelectTest, NeighbouringFloatsAreToldApart) {
  const float low = -1.0f;
  const float high = std::nextafter(low, 0.0f);
  EXPECT_THAT(Choose({low, low, high, low, high, low}, RowAt(95), Skip(0.5)).blocks,
              ElementsAre(2, 4, 5));
}

TEST_P(SelectTest, BlocksOfNewSlotsAreKept) {
  const std::vector<float> scores = {9, 8, 7, 6, -9, -9};
  EXPECT_THAT(Choose(scores, RowAt(80), Skip(0.9)).blocks, ElementsAre(5));
  EXPECT_THAT(Choose(scores, RowAt(79, 2), Skip(0.9)).blocks, ElementsAre(0, 4, 5));  // 79 and 80
}

TEST_P(SelectTest, FirstBlockIsKeptIfPinned) {
  Policy policy = Skip(0.5);
  policy.pin_first_block = 1;
  EXPECT_THAT(Choose({-9, 5, 2, 4, 3, 0}, RowAt(95), policy).blocks, ElementsAre(0, 1, 5));
}

TEST_P(SelectTest, HeaderTellsTheStepAndTheSources) {
  Policy policy = Skip(0.5);
  policy.pin_first_block = 1;
  policy.exploration = 0.25;
  const StoredList list = Choose(std::vector<float>(16, 1.0f), RowAt(250, 2), policy);
  EXPECT_TRUE(SameStamp(list.header.stamp, {TestSession::kEpoch, 1, 2, 250}));
  EXPECT_EQ(list.header.blocks, 16);
  EXPECT_EQ(list.header.count, 9);  // 8, and one for the draft
  EXPECT_EQ(list.header.pinned, 2);
  EXPECT_EQ(list.header.explored, 2);
  EXPECT_EQ(list.header.predicted, 5);
}

TEST_P(SelectTest, EmptyContextGivesAnEmptyStampedList) {
  TestSession session(device_, {.geometry = {1, 16, 16, 4, Dtype::kF32}});
  session.Open(0, 1000);
  const StoredList list = session.SelectFrom({}, RowAt(2), Skip(0.5));
  EXPECT_THAT(list.blocks, IsEmpty());
  EXPECT_EQ(list.header.count, 0);
  EXPECT_EQ(list.header.blocks, 0);
  EXPECT_TRUE(SameStamp(list.header.stamp, {TestSession::kEpoch, 1, 1, 2}));
}

TEST_P(SelectTest, WritesOnlyTheBufferRequestAndLayersOfItsRows) {
  TestSession session(device_, {.geometry = {3, 16, 16, 1, Dtype::kF32}, .max_requests = 3});
  for (const uint32_t request : {0, 1, 2}) session.Open(request, 1000);
  Row row = RowAt(95);
  row.request = 1;
  row.buffer = 1;
  Row padding = RowAt(95);
  padding.request = kPaddingRow;
  session.SetBlockScores(1, 1, 2, {1, 5, 2, 4, 3, 0});
  session.Select({padding, row}, Skip(0.5), {1, 1});
  for (const uint32_t buffer : {0, 1}) {
    for (const uint32_t request : {0, 1, 2}) {
      for (const int32_t layer : {0, 1, 2}) {
        const bool written = buffer == 1 && request == 1 && layer == 1;
        EXPECT_EQ(session.List(buffer, request, layer).header.count, written ? 3 : 0);
      }
    }
  }
}

TEST_P(SelectTest, EachLayerHasItsOwnSparsity) {
  TestSession session(device_, {.geometry = {2, 16, 16, 1, Dtype::kF32}});
  session.Open(0, 1000);
  session.Predict({RowAt(159)});
  Policy policy = Skip(0.2);
  policy.sparsity[1] = 0.7;
  session.Select({RowAt(159)}, policy);
  EXPECT_EQ(session.List(0, 0, 0).header.count, 8);
  EXPECT_EQ(session.List(0, 0, 1).header.count, 3);
}

TEST_P(SelectTest, ListsOfLongContextsEqualAFullSort) {
  TestSession session(device_, {.geometry = kSmall, .max_slots = 1 << 20});
  session.Open(0, 100);  // select reads no state
  std::mt19937_64 random(3);
  for (const int64_t slots : {4096, 70000, 1 << 20}) {
    for (const int distinct : {3, 2000, 1 << 30}) {  // few values: most blocks tie
      std::vector<float> scores(reference::BlockCount(slots, kSmall));
      for (float& score : scores) score = -static_cast<float>(random() % distinct);
      Policy policy = Skip(0.6);
      policy.exploration = 0.05;
      const Row row = RowAt(slots - 2, 2);
      EXPECT_EQ(session.SelectFrom(scores, row, policy).blocks,
                reference::Select(scores, {0, 0, row.position, 2}, kSmall, policy).blocks)
          << slots << " slots, " << distinct << " values";
    }
  }
}

}  // namespace
}  // namespace spin::kernels

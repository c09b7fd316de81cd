// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/kernels/reference.h"
#include "tests/kernels/test_session.h"

// State lies in pages that may be anywhere in the slab and come one after another.
namespace spin::kernels {
namespace {

class PagingTest : public DeviceTest {
 protected:
  static constexpr Geometry kGeometry = {2, 128, 64, 1, Dtype::kF32};

  // One step: observes everything at `position`, then predicts and selects for the next.
  static void Step(TestSession& session, int64_t position) {
    ScoreTensor scores(2, 1, 1, position + 1);
    std::mt19937_64 random(position);
    std::normal_distribution<float> normal;
    for (const int32_t layer : {0, 1}) {
      std::generate_n(scores.At(layer, 0), position + 1, [&] { return normal(random); });
    }
    session.Observe({ScoredAt(position)}, scores, 0.7);
    session.Predict({RowAt(position + 1)});
    session.Select({RowAt(position + 1)}, Skip(0.6));
  }

  static void ExpectEqual(TestSession& a, TestSession& b, int64_t position) {
    const int32_t blocks = reference::BlockCount(position + 2, kGeometry);
    for (const int32_t layer : {0, 1}) {
      ASSERT_EQ(a.BlockScores(layer, 0, 1, blocks), b.BlockScores(layer, 0, 1, blocks));
      ASSERT_EQ(a.List(0, 0, layer).blocks, b.List(0, 0, layer).blocks);
    }
  }

  static std::vector<float> First(std::vector<float> values, size_t count) {
    values.resize(count);
    return values;
  }
};
SPIN_TEST_ON_EVERY_DEVICE(PagingTest);

TEST_P(PagingTest, GrowingOnTheWayEqualsHavingAllPagesFromTheStart) {
  TestSession grown(device_, {.geometry = kGeometry, .max_slots = 3 * kPageSlots});
  TestSession whole(device_, {.geometry = kGeometry, .max_slots = 3 * kPageSlots});
  grown.Open(0, 1);
  whole.Open(0, 3 * kPageSlots);
  for (const int64_t position : {4090, 4093, 4094, 4095, 4096, 4097, 8190, 8191, 8192, 8193}) {
    grown.Grow(0, position + 2);
    Step(grown, position);
    Step(whole, position);
    ExpectEqual(grown, whole, position);
  }
  for (const int32_t layer : {0, 1}) {
    const size_t size = grown.capacity(0);
    EXPECT_TRUE(SameBits(grown.V(0, layer), First(whole.V(0, layer), size)));
    EXPECT_TRUE(SameBits(grown.D(0, layer), First(whole.D(0, layer), size)));
  }
}

TEST_P(PagingTest, OrderOfThePagesInTheSlabDoesNotMatter) {
  const SessionOptions options = {.geometry = kGeometry, .max_slots = 4 * kPageSlots};
  SessionOptions other_options = options;
  other_options.page_seed = 2;
  TestSession one(device_, options);
  TestSession other(device_, other_options);
  one.Open(0, 4 * kPageSlots);
  other.Open(0, 4 * kPageSlots);
  ASSERT_NE(one.pages(0), other.pages(0));
  for (const int64_t position : {12000, 12001, 12002, 13000}) {
    Step(one, position);
    Step(other, position);
    ExpectEqual(one, other, position);
  }
}

TEST_P(PagingTest, ScoresOnBothSidesOfAPageBorderEnter) {
  TestSession session(device_, {.geometry = kGeometry, .max_slots = 2 * kPageSlots});
  session.Open(0, 2 * kPageSlots);
  ScoreTensor scores(2, 1, 1, 4100);
  std::iota(scores.At(0, 0), scores.At(0, 0) + 4100, 0.0f);
  session.Observe({ScoredAt(4099)}, scores, 0.5, {0, 1});
  std::vector<float> expected(session.capacity(0), reference::kCold);
  std::iota(expected.begin(), expected.begin() + 4100, 0.0f);
  EXPECT_TRUE(SameBits(session.V(0, 0), expected));
  std::reverse(expected.begin(), expected.begin() + 4100);
  EXPECT_TRUE(SameBits(session.D(0, 0), expected));
}

TEST_P(PagingTest, QueryInAPartlyFilledSlotReachesOneDistanceFurther) {
  TestSession session(device_,
                      {.geometry = {1, 64, 64, 4, Dtype::kF32}, .max_slots = 2 * kPageSlots});
  session.Open(0, 4097);
  ScoreTensor scores(1, 1, 1, 4096);
  std::fill_n(scores.At(0, 0), 4096, 1.0f);
  session.Observe({ScoredAt(4 * 4096)}, scores, 0.5);  // 4096 slots, query slot 4096
  const std::vector<float> d = session.D(0, 0);
  EXPECT_EQ(d[0], reference::kCold);
  EXPECT_EQ(d[1], 1.0f);
  EXPECT_EQ(d[4096], 1.0f);
}

TEST_P(PagingTest, PageHoldsVThenReversedDOfEachLayer) {
  TestSession session(device_, {.geometry = kGeometry, .max_slots = kPageSlots});
  session.Open(0, kPageSlots);
  ScoreTensor scores(2, 1, 1, 2);
  scores.At(1, 0)[0] = 10;
  scores.At(1, 0)[1] = 11;
  session.Observe({ScoredAt(1)}, scores, 0.5, {1, 1});
  const auto at = [&](int64_t element) {
    float value;
    const std::vector<std::byte> bytes =
        session.slab().Download(session.pages(0)[0] * 256 + element * 4, 4);
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  };
  EXPECT_EQ(at(2 * 4096 + 0), 10);            // V of slot 0
  EXPECT_EQ(at(2 * 4096 + 1), 11);            // V of slot 1
  EXPECT_EQ(at(2 * 4096 + 4096 + 4095), 11);  // D of distance 0
  EXPECT_EQ(at(2 * 4096 + 4096 + 4094), 10);  // D of distance 1
}

}  // namespace
}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/observe.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/kernels/reference.h"
#include "tests/kernels/test_session.h"

namespace spin::kernels {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class ObserveTest : public DeviceTest {};
SPIN_TEST_ON_EVERY_DEVICE(ObserveTest);

// Scores of one row that all equal `value`.
ScoreTensor Constant(int64_t slots, float value) {
  ScoreTensor scores(1, 1, 1, slots);
  std::fill_n(scores.At(0, 0), slots, value);
  return scores;
}

std::vector<float> First(std::vector<float> values, size_t count) {
  values.resize(count);
  return values;
}

std::vector<int32_t> AllBlocks(int64_t slots, const Geometry& g) {
  std::vector<int32_t> blocks(reference::BlockCount(slots, g));
  std::iota(blocks.begin(), blocks.end(), 0);
  return blocks;
}

TEST_P(ObserveTest, FirstScoreIsTakenAsIs) {
  TestSession session(device_, {});
  session.Open(0, 100);
  session.Observe({ScoredAt(2)}, Constant(3, -0.3f), 0.9);
  EXPECT_THAT(First(session.V(0, 0), 4), ElementsAre(-0.3f, -0.3f, -0.3f, reference::kCold));
  EXPECT_THAT(First(session.D(0, 0), 4), ElementsAre(-0.3f, -0.3f, -0.3f, reference::kCold));
}

TEST_P(ObserveTest, LaterScoresAreAveraged) {
  TestSession session(device_, {});
  session.Open(0, 100);
  session.Observe({ScoredAt(1)}, Constant(2, 8.0f), 0.75);
  session.Observe({ScoredAt(1)}, Constant(2, 4.0f), 0.75);
  EXPECT_THAT(First(session.V(0, 0), 2), Each(7.0f));
  EXPECT_THAT(First(session.D(0, 0), 2), Each(7.0f));
}

TEST_P(ObserveTest, DecayZeroForgetsThePast) {
  TestSession session(device_, {});
  session.Open(0, 100);
  session.Observe({ScoredAt(1)}, Constant(2, 8.0f), 0);
  session.Observe({ScoredAt(1)}, Constant(2, 4.0f), 0);
  EXPECT_THAT(First(session.V(0, 0), 2), Each(4.0f));
}

TEST_P(ObserveTest, OneAverageFollowsTheSlotTheOtherTheDistance) {
  TestSession session(device_, {});
  session.Open(0, 100);
  ScoreTensor scores(1, 1, 1, 3);
  std::copy_n(std::vector<float>{1, 2, 4}.begin(), 3, scores.At(0, 0));
  session.Observe({ScoredAt(1)}, scores, 0.5);  // slots 0 and 1, at distances 1 and 0
  session.Observe({ScoredAt(2)}, scores, 0.5);  // slots 0, 1 and 2, at distances 2, 1 and 0
  EXPECT_THAT(First(session.V(0, 0), 3), ElementsAre(1, 2, 4));
  EXPECT_THAT(First(session.D(0, 0), 3), ElementsAre(3, 1.5, 1));
}

TEST_P(ObserveTest, DistanceCountsFromTheSlotOfTheQuery) {
  TestSession session(device_, {.geometry = {1, 64, 64, 4, Dtype::kF32}});
  session.Open(0, 100);
  session.Observe({ScoredAt(8)}, Constant(2, 1.0f), 0.5);  // in slot 2, which is not whole
  EXPECT_THAT(First(session.V(0, 0), 3), ElementsAre(1, 1, reference::kCold));
  EXPECT_THAT(First(session.D(0, 0), 4), ElementsAre(reference::kCold, 1, 1, reference::kCold));
}

TEST_P(ObserveTest, ZeroInitAveragesWithZero) {
  TestSession session(device_, {.zero_init = true});
  session.Open(0, 100);
  session.Observe({ScoredAt(1)}, Constant(2, -8.0f), 0.5);
  EXPECT_THAT(First(session.V(0, 0), 3), ElementsAre(-4, -4, 0));
}

TEST_P(ObserveTest, KeptScoresEnterTheirBlocksOnly) {
  TestSession session(device_, {.geometry = {1, 16, 16, 1, Dtype::kF32}});
  session.Open(0, 100);
  const StoredList list = session.SelectFrom({0, 3, 1, 2, 0, 0}, RowAt(83), Skip(0.5));
  ASSERT_THAT(list.blocks, ElementsAre(1, 3, 5));
  ScoredRow row = ScoredAt(83);
  row.coverage = Coverage::kKept;
  ScoreTensor scores(1, 1, 1, 36);  // two blocks, and 4 slots of the last
  std::iota(scores.At(0, 0), scores.At(0, 0) + 36, 100.0f);
  session.Observe({row}, scores, 0.5);
  const std::vector<float> v = session.V(0, 0);
  EXPECT_EQ(v[15], reference::kCold);
  EXPECT_EQ(v[16], 100);
  EXPECT_EQ(v[32], reference::kCold);
  EXPECT_EQ(v[48], 116);
  EXPECT_EQ(v[80], 132);
  EXPECT_EQ(v[84], reference::kCold);
  EXPECT_EQ(session.D(0, 0)[83 - 48], 116);
}

TEST_P(ObserveTest, OneLayerAtATimeEqualsAllAtOnce) {
  const Geometry g = {3, 64, 64, 1, Dtype::kF32};
  TestSession at_once(device_, {.geometry = g});
  TestSession one_by_one(device_, {.geometry = g});
  at_once.Open(0, 200);
  one_by_one.Open(0, 200);
  ScoreTensor scores(3, 1, 1, 200);
  for (int32_t layer = 0; layer < 3; ++layer) {
    std::iota(scores.At(layer, 0), scores.At(layer, 0) + 200, 1000.0f * layer);
  }
  ScoreTensor zeros(3, 1, 1, 200);
  std::fill(zeros.values.begin(), zeros.values.end(), 0.0f);
  at_once.Observe({ScoredAt(199)}, zeros, 0.5);
  one_by_one.Observe({ScoredAt(199)}, zeros, 0.5);
  at_once.Observe({ScoredAt(199)}, scores, 0.5);
  for (const int32_t layer : {2, 0, 1}) {
    one_by_one.Observe({ScoredAt(199)}, scores, 0.5, {layer, 1});
  }
  for (int32_t layer = 0; layer < 3; ++layer) {
    EXPECT_TRUE(SameBits(one_by_one.V(0, layer), at_once.V(0, layer)));
    EXPECT_TRUE(SameBits(one_by_one.D(0, layer), at_once.D(0, layer)));
    EXPECT_EQ(at_once.V(0, layer)[5], (1000.0f * layer + 5) / 2);
  }
}

TEST_P(ObserveTest, PaddingRowsAreSkipped) {
  TestSession session(device_, {});
  session.Open(0, 100);
  ScoredRow padding = ScoredAt(1);
  padding.request = kPaddingRow;
  session.Observe({padding}, Constant(2, 8.0f), 0.5);
  EXPECT_THAT(session.V(0, 0), Each(reference::kCold));
  EXPECT_EQ(session.Counters(0).considered_blocks, 0);
}

// The rule of ema.h: three roundings to fp32 and no FMA, then one to the type of the state.
TEST_P(ObserveTest, EveryTypeAndDecayRoundsByTheRule) {
  constexpr int64_t kSlots = 700;
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(-1, 3);
  for (const Dtype state : {Dtype::kF32, Dtype::kBF16}) {
    for (const Dtype element : {Dtype::kF32, Dtype::kBF16}) {
      for (const double decay : {0.0, 0.3, 0.5, 0.7, 0.9}) {
        const Geometry g = {1, 64, 64, 1, state};
        TestSession session(device_, {.geometry = g});
        session.Open(0, kSlots + 20);
        reference::LayerModel model(g, false);
        for (int64_t position = kSlots; position < kSlots + 20; ++position) {
          ScoreTensor scores(1, 1, 1, position + 1, element);
          std::generate_n(scores.At(0, 0), position + 1, [&] {
            const float score = normal(random);
            return element == Dtype::kF32 ? score : reference::RoundToBf16(score);
          });
          session.Observe({ScoredAt(position)}, scores, decay);
          model.Observe(position, AllBlocks(position + 1, g), scores.At(0, 0), decay);
        }
        const int64_t capacity = session.capacity(0);
        EXPECT_TRUE(SameBits(session.V(0, 0), model.V(capacity))) << decay;
        EXPECT_TRUE(SameBits(session.D(0, 0), model.D(capacity))) << decay;
      }
    }
  }
}

}  // namespace
}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/predict.h"

#include <gmock/gmock.h>

#include <limits>
#include <random>

#include "kernels/ema.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/test_session.h"

namespace spin::kernels {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class PredictTest : public DeviceTest {};
SPIN_TEST_ON_EVERY_DEVICE(PredictTest);

// Values of both signs with holes that were never observed; representable in bf16.
std::vector<float> RandomAverage(int64_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(-2, 1);
  std::vector<float> out(size);
  for (float& value : out) {
    value = random() % 4 == 0 ? kUnobserved : reference::RoundToBf16(normal(random));
  }
  return out;
}

// Compares the block scores of contexts around borders of blocks and pages with the definition.
void ExpectDefinition(const TestDevice& device, const Geometry& g, int32_t next_n) {
  TestSession session(device, {.geometry = g, .max_slots = 12400});
  session.Open(0, 12400);
  const std::vector<float> v = RandomAverage(session.capacity(0), 1);
  const std::vector<float> d = RandomAverage(session.capacity(0), 2);
  session.SetV(0, 0, v);
  session.SetD(0, 0, d);
  for (const int64_t slots : {1, 17, 64, 127, 129, 1000, 4095, 4096, 4097, 8192, 8193, 12300}) {
    const Row row = RowAt(slots * g.tokens_per_slot - 1, next_n);
    const std::vector<float> expected = reference::BlockScores(v, d, row.position, next_n, g);
    session.Predict({row});
    ASSERT_EQ(session.BlockScores(0, 0, 1, static_cast<int32_t>(expected.size())), expected)
        << slots << " slots, block " << g.block << ", next_n " << next_n << ", tokens per slot "
        << g.tokens_per_slot << ", bytes " << DtypeBytes(g.state);
  }
}

TEST_P(PredictTest, BlockScoreIsTheLargestOfBothAverages) {
  for (const Dtype state : {Dtype::kF32, Dtype::kBF16}) {
    for (const int32_t block : {16, 32, 64, 128}) {
      ExpectDefinition(device_, {1, block, 64, 1, state}, 1);
    }
  }
}

TEST_P(PredictTest, OneScoreServesAllVerifierRows) {
  for (int32_t next_n = 2; next_n <= kMaxNextN; ++next_n) {
    ExpectDefinition(device_, {1, 64, 64, 1, Dtype::kF32}, next_n);
  }
}

TEST_P(PredictTest, VerifierRowsOfASlotShareItsQuery) {
  for (const int32_t next_n : {1, 3, 4, 8}) {
    ExpectDefinition(device_, {1, 64, 64, 4, Dtype::kF32}, next_n);
    ExpectDefinition(device_, {1, 16, 64, 4, Dtype::kBF16}, next_n);
  }
}

TEST_P(PredictTest, UnobservedBlocksScoreMinusInfinity) {
  TestSession session(device_, {});
  session.Open(0, 1000);
  session.Predict({RowAt(999)});
  EXPECT_THAT(session.BlockScores(0, 0, 1, 16), Each(kUnobserved));
}

TEST_P(PredictTest, WhatLiesBeyondTheContextDoesNotCount) {
  TestSession session(device_, {});
  session.Open(0, 1000);
  std::vector<float> v(session.capacity(0), 1.0f);
  v[100] = 9.0f;  // the first slot that 100 slots of context do not hold
  session.SetV(0, 0, v);
  session.SetD(0, 0, v);  // and the first distance that they do not hold
  session.Predict({RowAt(99)});
  EXPECT_THAT(session.BlockScores(0, 0, 1, 2), ElementsAre(1.0f, 1.0f));
}

TEST_P(PredictTest, OnlyTheLastVerifierRowSeesTheLastSlot) {
  TestSession session(device_, {});
  session.Open(0, 1000);
  std::vector<float> d(session.capacity(0), kUnobserved);
  d[1] = 5.0f;
  session.SetD(0, 0, d);
  session.Predict({RowAt(63, 3)});  // the queries are 63, 64 and 65: distance 1 is 62, 63 and 64
  EXPECT_THAT(session.BlockScores(0, 0, 1, 2), ElementsAre(5.0f, 5.0f));
  session.Predict({RowAt(63, 2)});  // slot 64 is at distance 0 of query 64 only
  EXPECT_THAT(session.BlockScores(0, 0, 1, 2), ElementsAre(5.0f, kUnobserved));
}

TEST_P(PredictTest, PaddingRowsAndOtherLayersAreLeftAsTheyWere) {
  const Geometry g = {3, 64, 64, 1, Dtype::kF32};
  TestSession session(device_, {.geometry = g, .max_requests = 2});
  session.Open(0, 1000);
  for (int32_t layer = 0; layer < 3; ++layer) {
    for (const int32_t row : {0, 1}) session.SetBlockScores(layer, row, 2, {7.0f});
  }
  Row padding = RowAt(99);
  padding.request = kPaddingRow;
  session.Predict({padding, RowAt(50)}, {1, 1});
  for (const int32_t layer : {0, 1, 2}) {
    EXPECT_EQ(session.BlockScores(layer, 0, 2, 1)[0], 7.0f);
    EXPECT_EQ(session.BlockScores(layer, 1, 2, 1)[0], layer == 1 ? kUnobserved : 7.0f);
  }
}

TEST_P(PredictTest, EmptyContextHasNoScores) {
  TestSession session(device_, {.geometry = {1, 64, 64, 4, Dtype::kF32}});
  session.Open(0, 1000);
  session.SetBlockScores(0, 0, 1, {7.0f});
  session.Predict({RowAt(2)});  // no slot is whole yet
  EXPECT_EQ(session.BlockScores(0, 0, 1, 1)[0], 7.0f);
}

TEST_P(PredictTest, NoRowsAreFine) {
  TestSession session(device_, {});
  session.SetBlockScores(0, 0, 1, {7.0f});
  session.Predict({});
  EXPECT_EQ(session.BlockScores(0, 0, 1, 1)[0], 7.0f);
}

}  // namespace
}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>

#include "tests/kernels/reference.h"
#include "tests/kernels/test_session.h"

// Scores that Observe must not let in.
namespace spin::kernels {
namespace {

using ::testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMax = std::numeric_limits<float>::max();
const float kNan = std::numeric_limits<float>::quiet_NaN();

class NonfiniteTest : public DeviceTest {
 protected:
  TestSession OneLayer(Dtype state) {
    return TestSession(device_, {.geometry = {1, 64, 64, 1, state}});
  }

  static void Observe(TestSession& session, const std::vector<float>& row, double decay = 0.5) {
    ScoreTensor scores(1, 1, 1, row.size());
    std::copy(row.begin(), row.end(), scores.At(0, 0));
    session.Observe({ScoredAt(row.size() - 1)}, scores, decay);
  }

  static std::vector<float> FirstOfV(TestSession& session, size_t count) {
    std::vector<float> v = session.V(0, 0);
    v.resize(count);
    return v;
  }
};
SPIN_TEST_ON_EVERY_DEVICE(NonfiniteTest);

TEST_P(NonfiniteTest, UnobservedEntriesStayUnobserved) {
  for (const Dtype state : {Dtype::kF32, Dtype::kBF16}) {
    TestSession session = OneLayer(state);
    session.Open(0, 100);
    Observe(session, {kNan, kInf, -kInf, 2});
    EXPECT_THAT(FirstOfV(session, 4), ElementsAre(-kInf, -kInf, -kInf, 2));
    EXPECT_EQ(session.Counters(0).nonfinite_scores, 3);
    EXPECT_EQ(session.Counters(0).scored_slots, 4);
  }
}

TEST_P(NonfiniteTest, ObservedEntriesStayAsTheyWere) {
  for (const Dtype state : {Dtype::kF32, Dtype::kBF16}) {
    TestSession session = OneLayer(state);
    session.Open(0, 100);
    Observe(session, {1, 2, 4, 8});
    Observe(session, {kNan, kInf, -kInf, 16});
    EXPECT_THAT(FirstOfV(session, 4), ElementsAre(1, 2, 4, 12));
    EXPECT_EQ(session.Counters(0).nonfinite_scores, 3);
  }
}

TEST_P(NonfiniteTest, DecayZeroKeepsThemOutToo) {
  TestSession session = OneLayer(Dtype::kF32);
  session.Open(0, 100);
  Observe(session, {1, 2, 4, 8}, 0);
  Observe(session, {kNan, kInf, -kInf, 16}, 0);
  EXPECT_THAT(FirstOfV(session, 4), ElementsAre(1, 2, 4, 16));
}

TEST_P(NonfiniteTest, NoPatternOfNanEnters) {
  for (const Dtype state : {Dtype::kF32, Dtype::kBF16}) {
    for (const uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffc00000u,
                                0xffff8000u, 0xffffffffu}) {
      TestSession session = OneLayer(state);
      session.Open(0, 100);
      Observe(session, {FromBits(bits), 1});  // first unobserved, then observed
      Observe(session, {1, FromBits(bits)});
      EXPECT_THAT(FirstOfV(session, 2), ElementsAre(1, 1)) << std::hex << bits;
      EXPECT_EQ(session.Counters(0).nonfinite_scores, 2) << std::hex << bits;
    }
  }
}

TEST_P(NonfiniteTest, LargestFloatFitsAnFp32State) {
  TestSession session = OneLayer(Dtype::kF32);
  session.Open(0, 100);
  Observe(session, {kMax, -kMax});
  EXPECT_THAT(FirstOfV(session, 2), ElementsAre(kMax, -kMax));
  EXPECT_EQ(session.Counters(0).nonfinite_scores, 0);
}

TEST_P(NonfiniteTest, LargestFloatIsBeyondABf16State) {
  TestSession session = OneLayer(Dtype::kBF16);
  session.Open(0, 100);
  Observe(session, {kMax, -kMax, FromBits(0x7f7f0000)});  // the last is the largest bf16
  EXPECT_THAT(FirstOfV(session, 3), ElementsAre(-kInf, -kInf, FromBits(0x7f7f0000)));
  EXPECT_EQ(session.Counters(0).nonfinite_scores, 2);
}

TEST_P(NonfiniteTest, ScoreThatOnlyOneAverageTakesIsCountedOnce) {
  TestSession session = OneLayer(Dtype::kBF16);
  session.Open(0, 100);
  Observe(session, {kMax, 0});  // enters slot 1 and distance 0 only
  Observe(session, {0, kMax});  // half of it fits where there is an entry to average with
  EXPECT_THAT(FirstOfV(session, 2), ElementsAre(0, reference::RoundToBf16(kMax / 2)));
  EXPECT_EQ(session.D(0, 0)[0], reference::RoundToBf16(kMax / 2));
  Observe(session, {0, 0, kMax});  // slot 2 is new, distance 0 is not
  EXPECT_THAT(FirstOfV(session, 3)[2], -kInf);
  EXPECT_GT(session.D(0, 0)[0], kMax / 2);
  EXPECT_EQ(session.Counters(0).nonfinite_scores, 2);
}

TEST_P(NonfiniteTest, GarbageLeavesTheStateFinite) {
  std::mt19937_64 random(1);
  for (const Dtype state : {Dtype::kF32, Dtype::kBF16}) {
    const Geometry g = {1, 16, 64, 1, state};
    TestSession session(device_, {.geometry = g});
    session.Open(0, 1000);
    reference::LayerModel model(g, false);
    for (int64_t position = 470; position < 480; ++position) {  // 30 blocks
      std::vector<float> row(position + 1);
      for (float& score : row) score = FromBits(static_cast<uint32_t>(random()));
      Observe(session, row, 0.7);
      std::vector<int32_t> blocks(30);
      std::generate(blocks.begin(), blocks.end(), [n = 0]() mutable { return n++; });
      row.resize(480);
      model.Observe(position, blocks, row.data(), 0.7);
    }
    const std::vector<float> v = session.V(0, 0);
    EXPECT_TRUE(SameBits(v, model.V(v.size())));
    EXPECT_TRUE(SameBits(session.D(0, 0), model.D(v.size())));
    EXPECT_EQ(session.Counters(0).nonfinite_scores, model.ignored());
    EXPECT_TRUE(std::all_of(v.begin(), v.end(), [](float x) { return x < kInf; }));
  }
}

}  // namespace
}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/scorer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/trace/random_trace.h"
#include "trace/fp8.h"
#include "trace/trace.h"

namespace spin::trace {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsNan;

constexpr int kBlockSizes[] = {16, 32, 64, 128};
constexpr float kUntouched = 12345.0f;

double Dot(const Trace& trace, size_t key, size_t query) {
  double sum = 0;
  for (int d = 0; d < trace.dim; ++d) {
    sum += double{kFp8ToFloat[trace.k[key * trace.dim + d]]} *
           double{kFp8ToFloat[trace.q[query * trace.dim + d]]};
  }
  return sum;
}

// The definition in double, and the sum of magnitudes that bounds fp32's error.
struct Exact {
  double score = 0;
  double magnitude = 0;
};

Exact ExactScore(const Trace& trace, int layer, int step, int slot) {
  const size_t key = static_cast<size_t>(layer) * trace.slots + slot;
  const size_t row = static_cast<size_t>(layer) * trace.steps + step;
  Exact exact;
  for (int h = 0; h < trace.heads; ++h) {
    const size_t query = row * trace.heads + h;
    const double dot = Dot(trace, key, query);
    exact.score += trace.w[query] * std::max(dot, 0.0) * trace.k_scale[key];
    exact.magnitude += 448.0 * 448.0 * trace.dim * std::abs(trace.w[query] * trace.k_scale[key]);
  }
  return exact;
}

std::vector<float> AllScores(const Scorer& scorer, int layer, int step) {
  std::vector<float> scores(scorer.Context(step), kUntouched);
  EXPECT_EQ(scorer.ScoreAll(layer, step, scores.data()), scorer.Context(step));
  return scores;
}

// Of the listed blocks; checks that nothing is written behind them.
std::vector<float> BlockScores(const Scorer& scorer, int layer, int step,
                               const std::vector<int32_t>& blocks, int block) {
  std::vector<float> scores(blocks.size() * block + 1, kUntouched);
  const int count = scorer.ScoreBlocks(layer, step, blocks, block, scores.data());
  EXPECT_THAT(std::vector<float>(scores.begin() + count, scores.end()), Each(kUntouched));
  scores.resize(count);
  return scores;
}

// What ScoreBlocks has to give: the same scores, picked from the full scan.
std::vector<float> Picked(const std::vector<float>& all, const std::vector<int32_t>& blocks,
                          int block) {
  std::vector<float> picked;
  for (const int32_t j : blocks) {
    for (size_t i = static_cast<size_t>(j) * block; i < (j + size_t{1}) * block; ++i) {
      if (i < all.size()) picked.push_back(all[i]);
    }
  }
  return picked;
}

std::vector<uint32_t> Bits(const std::vector<float>& scores) {
  std::vector<uint32_t> bits;
  bits.reserve(scores.size());
  for (const float score : scores) bits.push_back(std::bit_cast<uint32_t>(score));
  return bits;
}

// Every kernel that this machine can run, with every shape.
class ScorerKernelTest : public testing::TestWithParam<std::tuple<NamedScoreKernel, TraceShape>> {
 protected:
  NamedScoreKernel kernel() const { return std::get<0>(GetParam()); }
  TraceShape shape() const { return std::get<1>(GetParam()); }
};

TEST_P(ScorerKernelTest, AgreesWithTheDefinition) {
  const Trace trace = RandomTrace(shape(), 1);
  const Scorer scorer(trace, kernel());
  for (int layer = 0; layer < trace.layers; ++layer) {
    for (int step = 0; step < trace.steps; ++step) {
      const std::vector<float> scores = AllScores(scorer, layer, step);
      for (int slot = 0; slot < trace.Context(step); ++slot) {
        const Exact exact = ExactScore(trace, layer, step, slot);
        ASSERT_NEAR(scores[slot], exact.score, exact.magnitude * 1e-6)
            << layer << " " << step << " " << slot;
      }
    }
  }
}

TEST_P(ScorerKernelTest, ScoresOfBlocksAreTheBitsOfTheFullScan) {
  const Scorer scorer(RandomTrace(shape(), 2), kernel());
  const int step = scorer.steps() - 1;
  const std::vector<float> all = AllScores(scorer, 0, step);
  for (const int block : kBlockSizes) {
    for (int first = 0; first < 3; ++first) {
      for (int stride = 1; stride < 4; ++stride) {
        std::vector<int32_t> blocks;
        for (int j = first; j * block < scorer.Context(step); j += stride) blocks.push_back(j);
        EXPECT_EQ(Bits(BlockScores(scorer, 0, step, blocks, block)),
                  Bits(Picked(all, blocks, block)))
            << block << " " << first << " " << stride;
      }
    }
  }
}

TEST_P(ScorerKernelTest, ANanReachesTheScoresItTouchesOnly) {
  for (const uint8_t code : {0x7f, 0xff}) {
    Trace trace = RandomTrace(shape(), 3);
    const int touched = trace.slots / 2;
    trace.k[static_cast<size_t>(touched) * trace.dim + trace.dim - 1] = code;
    const std::vector<float> scores = AllScores(Scorer(trace, kernel()), 0, trace.steps - 1);
    for (int slot = 0; slot < trace.slots; ++slot) {
      EXPECT_EQ(std::isnan(scores[slot]), slot == touched) << slot;
    }
  }
}

std::string Name(const testing::TestParamInfo<ScorerKernelTest::ParamType>& param) {
  const auto& [kernel, shape] = param.param;
  return absl::StrCat(kernel.name, "With", shape.slots, "Slots", shape.heads, "Heads", shape.dim,
                      "Dims");
}

constexpr TraceShape kShapes[] = {{1, 1, 1, 1, 1},   {2, 200, 3, 8, 64},  {1, 129, 2, 3, 5},
                                  {1, 64, 1, 9, 32}, {2, 77, 2, 64, 128}, {1, 513, 1, 16, 7}};

INSTANTIATE_TEST_SUITE_P(Kernels, ScorerKernelTest,
                         testing::Combine(testing::ValuesIn(RunnableScoreKernels()),
                                          testing::ValuesIn(kShapes)),
                         Name);

TEST(ScorerTest, TakesTheFastestKernelByItself) {
  const Scorer scorer(RandomTrace({1, 1, 1, 1, 1}, 1));
  EXPECT_STREQ(scorer.kernel_name(), RunnableScoreKernels().front().name);
  EXPECT_STREQ(RunnableScoreKernels().back().name, "baseline");
}

TEST(ScorerTest, SmallTraceBlocksAreTheBitsOfTheFullScan) {
  const auto trace = LoadTrace(SPIN_SMALL_TRACE);
  ASSERT_TRUE(trace.ok()) << trace.status();
  const Scorer scorer(*trace);
  std::mt19937 random(3);
  for (const int step : {0, 1, 63, 64, 127}) {
    for (int layer = 0; layer < scorer.layers(); ++layer) {
      const std::vector<float> all = AllScores(scorer, layer, step);
      for (const int block : kBlockSizes) {
        std::vector<int32_t> blocks;
        for (int j = 0; j * block < scorer.Context(step); ++j) {
          if (random() % 3 != 0) blocks.push_back(j);
        }
        EXPECT_EQ(Bits(BlockScores(scorer, layer, step, blocks, block)),
                  Bits(Picked(all, blocks, block)));
      }
    }
  }
}

TEST(ScorerTest, ABlockKeepsItsBitsInAnyOrderAndCompany) {
  const Scorer scorer(RandomTrace({1, 320, 1, 8, 64}, 4));
  const std::vector<float> all = AllScores(scorer, 0, 0);
  const std::vector<std::vector<int32_t>> lists = {{4},       {0},       {4, 0},
                                                   {3, 1, 2}, {2, 2, 2}, {0, 4, 1}};
  for (const std::vector<int32_t>& blocks : lists) {
    EXPECT_EQ(Bits(BlockScores(scorer, 0, 0, blocks, 64)), Bits(Picked(all, blocks, 64)));
    EXPECT_EQ(Bits(BlockScores(scorer, 0, 0, blocks, 16)), Bits(Picked(all, blocks, 16)));
  }
}

TEST(ScorerTest, TheLastBlockEndsAtTheQuery) {
  const Scorer scorer(RandomTrace({1, 100, 37, 2, 8}, 5));  // contexts 64 to 100
  for (int step = 0; step < scorer.steps(); ++step) {
    EXPECT_EQ(BlockScores(scorer, 0, step, {1}, 64).size(), static_cast<size_t>(step));
    EXPECT_EQ(AllScores(scorer, 0, step).size(), static_cast<size_t>(64 + step));
  }
}

TEST(ScorerTest, BlocksOutsideTheContextGiveNothing) {
  const Scorer scorer(RandomTrace({1, 100, 1, 2, 8}, 6));
  const int32_t most = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(BlockScores(scorer, 0, 0, {2, -1, most, -most - 1}, 64), IsEmpty());
  EXPECT_THAT(BlockScores(scorer, 0, 0, {}, 64), IsEmpty());
  EXPECT_EQ(BlockScores(scorer, 0, 0, {7, 1, 7}, 64).size(), 36u);
}

TEST(ScorerTest, IsTheFormulaForOneHead) {
  Trace trace = RandomTrace({1, 2, 1, 1, 2}, 7);
  trace.k = {0x38, 0x40, 0xb8, 0x38};  // [1, 2], [-1, 1]
  trace.q = {0x38, 0x30};              // [1, 0.5]
  trace.k_scale = {2.0f, 3.0f};
  trace.w = {-1.5f};
  EXPECT_THAT(AllScores(Scorer(trace), 0, 0), ElementsAre(-6.0f, 0.0f));
}

TEST(ScorerTest, ANanInTheQueryReachesAllScoresOfTheStep) {
  Trace trace = RandomTrace({1, 40, 2, 3, 6}, 9);
  trace.q[0] = 0x7f;
  const Scorer scorer(trace);
  EXPECT_THAT(AllScores(scorer, 0, 0), Each(IsNan()));
  EXPECT_THAT(AllScores(scorer, 0, 1), Each(testing::Not(IsNan())));
}

TEST(ScorerTest, NonFiniteScalesAndWeightsReachTheScore) {
  Trace trace = RandomTrace({1, 3, 1, 1, 1}, 10);
  trace.k = {0x38, 0x38, 0x38};
  trace.q = {0x38};
  trace.w = {1.0f};
  trace.k_scale = {std::numeric_limits<float>::infinity(), std::nanf(""), 1.0f};
  const std::vector<float> scores = AllScores(Scorer(trace), 0, 0);
  EXPECT_TRUE(std::isinf(scores[0]));
  EXPECT_TRUE(std::isnan(scores[1]));
  EXPECT_EQ(scores[2], 1.0f);
  trace.w = {std::nanf("")};
  EXPECT_THAT(AllScores(Scorer(trace), 0, 0), Each(IsNan()));
}

TEST(ScorerTest, OutlivesTheTrace) {
  auto trace = std::make_unique<Trace>(RandomTrace({1, 33, 1, 4, 16}, 11));
  const Scorer scorer(*trace);
  const std::vector<float> before = AllScores(scorer, 0, 0);
  trace.reset();
  EXPECT_EQ(Bits(AllScores(scorer, 0, 0)), Bits(before));
}

TEST(ScorerTest, FlopsCountTheTracesHeads) {
  EXPECT_EQ(Scorer(RandomTrace({1, 1, 1, 8, 64}, 12)).FlopsPerScore(), 8 * (128 + 3) + 1);
}

TEST(SmallTraceScoresTest, AreFiniteAndMostlyNegative) {
  const auto trace = LoadTrace(SPIN_SMALL_TRACE);
  ASSERT_TRUE(trace.ok()) << trace.status();
  const Scorer scorer(*trace);
  int64_t total = 0, negative = 0, finite = 0;
  for (int layer = 0; layer < scorer.layers(); ++layer) {
    for (int step = 0; step < scorer.steps(); ++step) {
      for (const float score : AllScores(scorer, layer, step)) {
        ++total;
        negative += score < 0;
        finite += std::isfinite(score);
      }
    }
  }
  EXPECT_EQ(finite, total);
  EXPECT_NEAR(static_cast<double>(negative) / total, 0.9467, 0.0005);
}

}  // namespace
}  // namespace spin::trace

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/predictor.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <tuple>

#include "prediction/trial.h"
#include "prediction/walk.h"
#include "tests/prediction/brute_force.h"
#include "tests/prediction/smooth_trace.h"

namespace spin::prediction {
namespace {

constexpr int kTopk = 24;
constexpr int kBlock = 16;

kernels::Policy UniformPolicy(double sparsity, double decay) {
  kernels::Policy policy = {};
  std::fill(std::begin(policy.sparsity), std::end(policy.sparsity), sparsity);
  policy.decay = decay;
  return policy;
}

Trial Play(const trace::Trace& trace, const std::string& name, const kernels::Policy& policy,
           int threads = 1) {
  const kernels::Geometry geometry = {trace.layers, kBlock, kTopk, 1, kernels::Dtype::kF32};
  Trial trial(FindPredictor(name)->make, {geometry, trace.Context(trace.steps - 1), policy});
  const trace::Scorer scorer(trace);
  const SubBlockMeans means(trace);
  LayerVisitor* const visitors[] = {&trial};
  EXPECT_TRUE(
      Walk({&scorer, &means, trace.steps, kTopk, kBlock}, visitors, {2, threads, nullptr}).ok());
  return trial;
}

class PredictorsTest : public ::testing::TestWithParam<std::tuple<const char*, double>> {};

TEST_P(PredictorsTest, MissWhatBruteForceMisses) {
  const auto [name, sparsity] = GetParam();
  // The context grows over two block borders; seven layers: five and more before the last ones.
  const trace::Trace trace = SmoothTrace({7, 16 * 20 + 9, 40, 2, 6}, 11);
  const BruteForce reference(trace, kTopk, kBlock);
  const Trial trial = Play(trace, name, UniformPolicy(sparsity, 0.7));
  int64_t all = 0;
  for (int layer = 0; layer < trace.layers; ++layer) {
    const std::vector<double>& miss = trial.layer(layer).miss;
    if (absl::string_view(name).find("prev_layer") == 0 && layer == 0) {
      EXPECT_TRUE(miss.empty()) << "the first layer has none before it";
      continue;
    }
    const std::vector<int> expected = reference.Missed(name, layer, sparsity, 0.7f);
    ASSERT_EQ(miss.size(), expected.size());
    for (size_t step = 0; step < miss.size(); ++step) {
      EXPECT_DOUBLE_EQ(miss[step], static_cast<double>(expected[step]) / kTopk)
          << "layer " << layer << ", step " << step + 1;
      all += expected[step];
    }
  }
  if (sparsity > 0.5 && std::string(name) != "block_oracle" && std::string(name) != "A0") {
    EXPECT_GT(all, 0) << "a test in which nothing is missed shows nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(All, PredictorsTest,
                         ::testing::Combine(::testing::Values("prev_layer", "prev_layer_best5",
                                                              "prev_iter", "prev_iter_offset1",
                                                              "v_only", "d_only", "spin",
                                                              "sub_block_mean", "query_aware",
                                                              "block_oracle", "A0", "A2"),
                                            ::testing::Values(0.3, 0.6, 0.85)),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)) + "_" +
                                  std::to_string(static_cast<int>(100 * std::get<1>(param.param)));
                         });

TEST(RandomPredictorTest, MissesTheShareThatItSkips) {
  const trace::Trace trace = SmoothTrace({4, 16 * 40, 60, 2, 4}, 3);
  const MissSummary miss = Play(trace, "random", UniformPolicy(0.5, 0.5)).Read();
  EXPECT_NEAR(miss.mean, 0.5, 0.06);  // the newest slots are always kept
  EXPECT_NEAR(miss.sparsity, 0.5, 0.02);
}

TEST(RandomPredictorTest, DrawsOtherBlocksForAnotherSeedOnly) {
  const trace::Trace trace = SmoothTrace({2, 16 * 30, 20, 2, 4}, 3);
  kernels::Policy policy = UniformPolicy(0.5, 0.5);
  const MissSummary first = Play(trace, "random", policy).Read();
  EXPECT_EQ(Play(trace, "random", policy).Read().layers, first.layers);
  policy.seed = 1;
  EXPECT_NE(Play(trace, "random", policy).Read().layers, first.layers);
}

TEST(PredictorsTest, NoneMissesLessThanTheBlockOracle) {
  const trace::Trace trace = SmoothTrace({3, 16 * 25, 30, 2, 6}, 5);
  const kernels::Policy policy = UniformPolicy(0.8, 0.5);
  const Trial oracle = Play(trace, "block_oracle", policy);
  for (const NamedPredictor& predictor : Predictors()) {
    const Trial trial = Play(trace, predictor.name, policy);
    for (int layer = 0; layer < trace.layers; ++layer) {
      for (size_t i = 0; i < trial.layer(layer).miss.size(); ++i) {
        EXPECT_GE(trial.layer(layer).miss[i], oracle.layer(layer).miss[i]) << predictor.name;
      }
    }
  }
}

TEST(TrialTest, ThreadsDoNotChangeResults) {
  const trace::Trace trace = SmoothTrace({5, 16 * 20, 24, 2, 6}, 8);
  kernels::Policy policy = UniformPolicy(0.6, 0.5);
  policy.exploration = 0.2;
  EXPECT_EQ(Play(trace, "query_aware", policy, 1).Read().layers,
            Play(trace, "query_aware", policy, 4).Read().layers);
}

TEST(TrialTest, AuditedStepsScoreEverythingAndSayWhatWouldHaveBeenMissed) {
  const trace::Trace trace = SmoothTrace({2, 16 * 20, 24, 2, 6}, 8);
  kernels::Policy policy = UniformPolicy(0.6, 0.5);
  policy.audit_every = 1;
  const MissSummary audited = Play(trace, "spin", policy).Read();
  EXPECT_DOUBLE_EQ(audited.sparsity, 0);
  EXPECT_GT(audited.mean, 0);
}

TEST(TrialTest, ScoresThatAreNoNumbersDoNotStopIt) {
  trace::Trace trace = SmoothTrace({2, 16 * 20, 12, 2, 6}, 8);
  for (size_t i = 0; i < trace.k.size(); i += 97) trace.k[i] = 0x7f;  // FP8 NaN
  for (const NamedPredictor& predictor : Predictors()) {
    EXPECT_LE(Play(trace, predictor.name, UniformPolicy(0.5, 0.5)).Read().mean, 1)
        << predictor.name;
  }
}

TEST(WalkTest, EndsWithTheStatusOfTheCaller) {
  const trace::Trace trace = SmoothTrace({2, 64, 12, 1, 2}, 8);
  const trace::Scorer scorer(trace);
  int steps = 0;
  const auto stop_at_five = [&](int done) {
    steps = done;
    return done == 5 ? absl::CancelledError("enough") : absl::OkStatus();
  };
  EXPECT_EQ(Walk({&scorer, nullptr, 12, 4, 16}, {}, {2, 2, stop_at_five}).code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(steps, 5);
}

}  // namespace
}  // namespace spin::prediction

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/prediction/smooth_trace.h"

namespace spin::prediction {
namespace {

absl::Status GoOn(int64_t) { return absl::OkStatus(); }

const Measured* Find(const std::vector<Measured>& table, const std::string& name, double target) {
  for (const Measured& row : table) {
    if (row.name == name && row.target == target) return &row;
  }
  return nullptr;
}

TEST(EvaluationTest, AgreesWithAnIndependentImplementationOnTheBundledTrace) {
  const auto trace = trace::LoadTrace(SPIN_TRACES "/small-8k.safetensors");
  ASSERT_TRUE(trace.ok()) << trace.status();
  std::ifstream file(SPIN_TRACES "/expected.json");
  const nlohmann::json expected = nlohmann::json::parse(file)["small-8k"];
  EvaluationOptions options;
  options.topk = expected["K"];
  options.threads = 2;
  options.studies = {true, false, false, false, false, false};
  const auto evaluation = Evaluate(*trace, options, GoOn);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  for (const MeasuredSignal& signal : evaluation->signals) {
    if (!expected["signal"].contains(SignalName(signal.kind))) continue;
    const nlohmann::json& want = expected["signal"][SignalName(signal.kind)];
    EXPECT_NEAR(signal.summary.pearson, want["pearson"], 0.0005) << SignalName(signal.kind);
    EXPECT_NEAR(signal.summary.recall, want["recall"], 0.0005) << SignalName(signal.kind);
  }
  for (const auto& [target, predictors] : expected["miss"].items()) {
    for (const auto& [name, want] : predictors.items()) {
      const Measured* got = Find(evaluation->predictors, name, std::stod(target));
      ASSERT_NE(got, nullptr) << name;
      EXPECT_NEAR(got->miss.mean, want["mean"], 0.0005) << name << " at " << target;
      EXPECT_NEAR(got->miss.p99, want["p99"], 0.0005) << name << " at " << target;
      ASSERT_EQ(got->miss.layers.size(), want["layers"].size()) << name;
      for (size_t i = 0; i < want["layers"].size(); ++i) {
        EXPECT_NEAR(got->miss.layers[i], want["layers"][i], 0.0005) << name << " at " << target;
      }
    }
  }
}

TEST(EvaluationTest, QueryAwareMissesAtMostHalfOfSpin) {
  const auto trace = trace::LoadTrace(SPIN_TRACES "/small-8k.safetensors");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EvaluationOptions options;
  options.topk = 128;
  options.sparsities = {0.4, 0.6};
  options.studies = {false, false, false, false, false, false};
  const auto evaluation = Evaluate(*trace, options, GoOn);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  for (const double target : options.sparsities) {
    EXPECT_LE(Find(evaluation->predictors, "query_aware", target)->miss.mean,
              0.5 * Find(evaluation->predictors, "spin", target)->miss.mean);
  }
}

TEST(EvaluationTest, EveryStudyHasEveryRow) {
  const trace::Trace trace = SmoothTrace({2, 16 * 20, 20, 1, 4}, 1);
  EvaluationOptions options;
  options.topk = 8;
  options.block = 16;
  options.sparsities = {0.5, 0.7};
  options.layer_sparsity = {0.3, 0.6};
  options.heat_map = true;
  int64_t steps = 0;
  const auto evaluation = Evaluate(trace, options, [&](int64_t done) {
    EXPECT_EQ(done, steps + 1);
    steps = done;
    return absl::OkStatus();
  });
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ(steps, int64_t{trace.steps} * EvaluationWalks(options));
  EXPECT_EQ(evaluation->predictors.size(), 3 * Predictors().size());
  EXPECT_EQ(evaluation->pooling.size(), 3 * Poolings().size());
  EXPECT_EQ(evaluation->exploration.size(), 2 * options.explorations.size());
  EXPECT_EQ(evaluation->audits.size(), 2 * options.audits.size());
  EXPECT_EQ(evaluation->decay.size(), 2 * options.decays.size());
  EXPECT_EQ(evaluation->drafts.size(), 2u * 3 * 7);
  EXPECT_EQ(evaluation->heat_map.size(), 2u);
  const MissSummary& per_layer = evaluation->predictors.back().miss;
  EXPECT_NEAR(per_layer.layer_sparsity[0], 0.3, 0.05);
  EXPECT_NEAR(per_layer.layer_sparsity[1], 0.6, 0.05);
}

TEST(EvaluationTest, RefusesWhatDoesNotFitTheTrace) {
  const trace::Trace trace = SmoothTrace({2, 64, 20, 1, 4}, 1);
  const auto refusal = [&](auto change) {
    EvaluationOptions options;
    options.topk = 8;
    change(&options);
    return std::string(Evaluate(trace, options, GoOn).status().message());
  };
  EXPECT_THAT(refusal([](auto* o) { o->steps = 21; }), ::testing::HasSubstr("the trace has 20"));
  EXPECT_THAT(refusal([](auto* o) { o->layer_sparsity = {0.1}; }),
              ::testing::HasSubstr("1 values for 2 layers"));
}

TEST(HeatMapTest, ShowsEveryMissOfTheTrial) {
  const trace::Trace trace = SmoothTrace({1, 16 * 20, 12, 2, 6}, 2);
  const kernels::Geometry geometry = {1, 16, 24, 1, kernels::Dtype::kF32};
  kernels::Policy policy = {};
  policy.sparsity[0] = 0.7;
  policy.decay = 0.5;
  Trial trial(FindPredictor("spin")->make, {geometry, trace.slots, policy});
  HeatMap map(trial, 1, trace.steps, trace.slots, 16);
  const trace::Scorer scorer(trace);
  LayerVisitor* const visitors[] = {&trial, &map};
  ASSERT_TRUE(Walk({&scorer, nullptr, trace.steps, 24, 16}, visitors, {2, 1, nullptr}).ok());
  const Grid grid = map.Take()[0].all;
  ASSERT_EQ(grid.rows, trace.steps - 1);
  ASSERT_EQ(grid.columns, 20);
  for (int row = 0; row < grid.rows; ++row) {
    const auto cells = absl::MakeConstSpan(grid.cells).subspan(row * grid.columns, grid.columns);
    const bool shown = std::count(cells.begin(), cells.end(), Cell::kMissed) > 0;
    EXPECT_EQ(shown, trial.layer(0).miss[row] > 0) << "step " << row + 1;
    EXPECT_EQ(std::count_if(cells.begin(), cells.end(),
                            [](Cell c) { return c == Cell::kKept || c == Cell::kHit; }),
              6);
  }
}

}  // namespace
}  // namespace spin::prediction

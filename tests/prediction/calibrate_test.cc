// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/prediction/smooth_trace.h"

namespace spin::prediction {
namespace {

ReplayOptions Options() {
  ReplayOptions options;
  options.predictor = FindPredictor("spin")->make;
  options.topk = 24;
  options.block = 16;
  options.exploration = 0;
  options.threads = 2;
  return options;
}

absl::Status GoOn(double) { return absl::OkStatus(); }

// The second layer's queries do not change: its curve is another one than the first's.
trace::Trace UnequalTrace(uint32_t seed) {
  trace::Trace trace = SmoothTrace({2, 16 * 40, 60, 2, 6}, seed);
  const size_t row = static_cast<size_t>(trace.heads) * trace.dim;
  for (int step = 1; step < trace.steps; ++step) {
    const size_t at = trace.steps + step;
    std::copy_n(trace.q.begin() + trace.steps * row, row, trace.q.begin() + at * row);
    std::copy_n(trace.w.begin() + trace.steps * trace.heads, trace.heads,
                trace.w.begin() + at * trace.heads);
  }
  return trace;
}

TEST(CalibrateTest, SpendsTheSameTotalWhereItHelps) {
  const trace::Trace traces[] = {UnequalTrace(1), UnequalTrace(2)};
  const CalibrationGoal goal = {0.7, {}};
  const auto results = Calibrate(traces, {&goal, 1}, Options(), GoOn);
  ASSERT_TRUE(results.ok()) << results.status();
  const Calibrated& result = results->front();
  EXPECT_NEAR(result.total_sparsity, 0.7, 1e-9);
  EXPECT_NE(result.layer_sparsity[0], result.layer_sparsity[1]);
  ASSERT_EQ(result.held_out.size(), 2u);
  EXPECT_LT(MeanMiss(result.calibrated), MeanMiss(result.uniform_total));
  EXPECT_LT(MeanMiss(result.held_out), MeanMiss(result.uniform_total));
}

TEST(CalibrateTest, HoldsTheTargetMissWithMoreSparsityThanOneForAll) {
  const trace::Trace traces[] = {UnequalTrace(3)};
  const CalibrationGoal goal = {{}, 0.1};
  const auto results = Calibrate(traces, {&goal, 1}, Options(), GoOn);
  ASSERT_TRUE(results.ok()) << results.status();
  const Calibrated& result = results->front();
  EXPECT_LE(MeanMiss(result.calibrated), 0.1);  // the next text may miss more
  EXPECT_GE(MeanMiss(result.calibrated), 0.05);
  EXPECT_GT(result.total_sparsity, result.uniform_sparsity);
  EXPECT_TRUE(result.held_out.empty());
}

TEST(CalibrateTest, ProgressEndsAtOneAndMayStopIt) {
  const trace::Trace traces[] = {UnequalTrace(1)};
  const CalibrationGoal goal = {0.7, {}};
  double last = 0;
  ASSERT_TRUE(Calibrate(traces, {&goal, 1}, Options(), [&](double share) {
                EXPECT_GE(share, last);
                last = share;
                return absl::OkStatus();
              }).ok());
  EXPECT_NEAR(last, 1, 0.05);
  const auto stopped =
      Calibrate(traces, {&goal, 1}, Options(), [](double) { return absl::CancelledError(""); });
  EXPECT_EQ(stopped.status().code(), absl::StatusCode::kCancelled);
}

TEST(CalibrateTest, RefusesTracesOfDifferentLayers) {
  trace::Trace traces[] = {UnequalTrace(1), UnequalTrace(2)};
  traces[1].layer_numbers = {0, 7};
  const CalibrationGoal goal = {0.7, {}};
  EXPECT_THAT(std::string(Calibrate(traces, {&goal, 1}, Options(), GoOn).status().message()),
              ::testing::HasSubstr("trace 2: it has other layers"));
  EXPECT_FALSE(Calibrate({}, {&goal, 1}, Options(), GoOn).ok());
}

}  // namespace
}  // namespace spin::prediction

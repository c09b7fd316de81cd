// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/report.h"

#include <gtest/gtest.h>

#include "client/cli/json.h"

namespace spin::cli {
namespace {

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() {
    flags_.trace = "t.safetensors";
    flags_.topk = 4;
    trace_.layers = 2;
    trace_.first_query = 100;
    trace_.layer_numbers = {7, 12};
    played_.steps = 3;
    played_.requests = {{"t.safetensors", 0.25, 0.4}};
    played_.layers.resize(2);
    for (QualityMeter& layer : played_.layers) {
      layer.Add({.considered_blocks = 10,
                 .kept_blocks = 6,
                 .considered_slots = 640,
                 .kept_slots = 384,
                 .truth = 4,
                 .missed = 1,
                 .found = 3});
    }
    played_.mean = {.spin = 1e-6, .score = 2e-6, .topk = 3e-6};
    played_.mean_full = {.score = 4e-6, .topk = 5e-6};
    client_.rows_by_reason[static_cast<int>(Reason::kCold)] = 1;
    client_.rows_by_reason[static_cast<int>(Reason::kNone)] = 2;
  }

  ReplayReport Report() const {
    return {flags_, trace_, played_, client_, std::nullopt, {}, false};
  }

  ReplayFlags flags_;
  trace::Trace trace_;
  PlayResult played_;
  SessionStats client_;
};

TEST_F(ReportTest, JsonHasTheDocumentedNumbers) {
  const Json json = Json::parse(ReportJson(Report()));
  EXPECT_DOUBLE_EQ(json["miss_mean"], 0.25);
  EXPECT_DOUBLE_EQ(json["miss_p99"], 0.25);
  EXPECT_DOUBLE_EQ(json["recall"], 0.75);
  EXPECT_DOUBLE_EQ(json["realized_sparsity"], 0.4);
  EXPECT_EQ(json["steps"], 3);
  EXPECT_DOUBLE_EQ(json["us_per_step"], 6);
  EXPECT_EQ(json["scores_computed"], 768);
  EXPECT_EQ(json["layers"][1]["layer"], 12);
  EXPECT_DOUBLE_EQ(json["layers"][1]["miss_mean"], 0.25);
}

TEST_F(ReportTest, AStepIsHeldAgainstAFullScanWithItsTopK) {
  ReplayReport report = Report();
  Json json = Json::parse(ReportJson(report));
  EXPECT_DOUBLE_EQ(json["full_us_per_step"], 9);
  EXPECT_DOUBLE_EQ(json["full_score_us_per_step"], 4);
  EXPECT_NE(ReportText(report, Terminal{})
                .find("\nwithout Spin    9.0 us = scoring everything 4.0 us + top-K 5.0 us\n"),
            std::string::npos);
  report.on_gpu = true;  // there nobody has timed one
  json = Json::parse(ReportJson(report));
  EXPECT_TRUE(json["full_us_per_step"].is_null());
  EXPECT_EQ(ReportText(report, Terminal{}).find("without Spin"), std::string::npos);
}

TEST_F(ReportTest, EveryFallbackReasonIsThereAndNothingElse) {
  const Json fallbacks = Json::parse(ReportJson(Report()))["fallbacks"];
  EXPECT_EQ(fallbacks["cold"], 1);
  EXPECT_EQ(fallbacks["no_sidecar"], 0);
  EXPECT_EQ(fallbacks.size(), 9u);
  EXPECT_FALSE(fallbacks.contains("audit"));
}

TEST_F(ReportTest, WithoutSpindItsCountsAreNull) {
  const Json json = Json::parse(ReportJson(Report()));
  EXPECT_TRUE(json["audits"]["topk_slots"].is_null());
  EXPECT_TRUE(json["epoch"].is_null());
}

TEST_F(ReportTest, OnlyTheFirstStepMayBeCold) {
  EXPECT_EQ(Report().UnexpectedFallbacks(), 0u);
  client_.rows_by_reason[static_cast<int>(Reason::kCold)] = 2;
  client_.rows_by_reason[static_cast<int>(Reason::kDeadline)] = 3;
  EXPECT_EQ(Report().UnexpectedFallbacks(), 4u);
}

TEST_F(ReportTest, CommandsToTryNextAreForAShell) {
  flags_.given = {{"--trace", "it's a trace.safetensors"}, {"--topk", "4"}};
  EXPECT_NE(ReportText(Report(), Terminal{})
                .find(" replay --trace 'it'\\''s a trace.safetensors' --topk 4 --sparsity"),
            std::string::npos);
}

TEST_F(ReportTest, CommandsToTryNextRepeatWhatWasGiven) {
  flags_.common.socket = "/s";
  flags_.given = {{"--trace", "t"},
                  {"--policy", "p.json"},
                  {"--pin-first-block", std::nullopt},
                  {"--sparsity", "0.4"},
                  {"--socket", "/s"}};
  const std::string text = ReportText(Report(), Terminal{});
  EXPECT_NE(text.find("; policy file p.json\n"), std::string::npos) << text;
  EXPECT_NE(
      text.find(" replay --trace t --policy p.json --pin-first-block --socket /s --sparsity 0.7\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find(" --sparsity 0.4 --socket /s --audit-every 16\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("--hold"), std::string::npos) << "not with another's spind";
}

TEST_F(ReportTest, TextHasARowForEachLayerAndATotal) {
  const std::string text = ReportText(Report(), Terminal{});
  EXPECT_NE(text.find("\n    7  "), std::string::npos) << text;
  EXPECT_NE(text.find("\n   12  "), std::string::npos) << text;
  EXPECT_NE(text.find("\ntotal  "), std::string::npos) << text;
  EXPECT_EQ(text.find('\033'), std::string::npos);
}

}  // namespace
}  // namespace spin::cli

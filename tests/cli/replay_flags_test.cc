// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/replay_flags.h"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <string>

namespace spin::cli {
namespace {

trace::Trace Shape(int layers, int first_query, int steps) {
  trace::Trace trace;
  trace.layers = layers;
  trace.first_query = first_query;
  trace.steps = steps;
  trace.slots = first_query + steps;
  return trace;
}

ReplayFlags Flags() {
  ReplayFlags flags;
  flags.trace = "dir/some trace \"x\".safetensors";
  flags.topk = 128;
  return flags;
}

std::string Refusal(const ReplayFlags& flags, const trace::Trace& trace) {
  return std::string(CheckAgainstTrace(flags, trace).message());
}

TEST(ReplayFlagsTest, WhatTheTraceCannotGiveIsRefused) {
  ReplayFlags flags = Flags();
  EXPECT_EQ(Refusal(flags, Shape(4, 100, 8)), "");
  flags.steps = 9;
  EXPECT_EQ(Refusal(flags, Shape(4, 100, 8)), "--steps: 9 is more than the trace has, 8");
  flags.steps = 0;
  EXPECT_NE(Refusal(flags, Shape(4, 100, 1)).find("steps: 1 is too few"), std::string::npos);
  flags.layer_sparsity = {0.1};
  EXPECT_EQ(Refusal(flags, Shape(4, 100, 8)),
            "--layer-sparsity: 1 value for 4 layers of the trace; give one for each");
}

TEST(ReplayFlagsTest, BoundsAreHeldAgainstEachOther) {
  ReplayFlags flags = Flags();
  flags.min_sparsity = 0.8;
  flags.max_sparsity = 0.2;
  EXPECT_EQ(Refusal(flags, Shape(4, 100, 8)),
            "--min-sparsity: 0.8 is more than --max-sparsity, 0.2");
}

TEST(ReplayFlagsTest, LimitsOfSpinAreNamed) {
  EXPECT_NE(Refusal(Flags(), Shape(129, 100, 8)).find("layers: 129"), std::string::npos);
  EXPECT_NE(Refusal(Flags(), Shape(4, 4 << 20, 8)).find("slots: a context of 4194312"),
            std::string::npos);
}

TEST(ReplayFlagsTest, ASessionHasTheShapeOfTheTraceAndTheWholePolicy) {
  const SessionOptions options = SessionOptionsFor(Flags(), {Shape(4, 100, 8)}, "/s", "me");
  EXPECT_EQ(options.model.name, "some_trace__x_");
  EXPECT_EQ(options.model.layers, 4);
  EXPECT_EQ(options.model.max_slots, 108);
  EXPECT_EQ(options.policy.sparsity, 0.4);
  EXPECT_EQ(options.policy.audit_every, 0u);
  EXPECT_EQ(options.policy.enabled, true);
}

TEST(ReplayFlagsTest, SeveralTracesShareASessionThatFitsTheLongest) {
  ReplayFlags flags = Flags();
  flags.more_traces = {"b"};
  flags.requests = 3;
  flags.rounds = 5;
  const std::vector<trace::Trace> traces = {Shape(4, 100, 8), Shape(4, 200, 8)};
  EXPECT_TRUE(CheckTogether(flags, traces).ok());
  EXPECT_EQ(RequestsOf(flags), 30);
  EXPECT_EQ(SessionOptionsFor(flags, traces, "/s", "me").model.max_slots, 208);
  const std::vector<trace::Trace> unlike = {Shape(4, 100, 8), Shape(5, 100, 8)};
  EXPECT_NE(CheckTogether(flags, unlike).message().find("--then: b has 5 layers"),
            std::string::npos);
}

TEST(ReplayFlagsTest, LearningNeedsAudits) {
  ReplayFlags flags = Flags();
  flags.budget_mode = "calibrated";
  EXPECT_NE(Refusal(flags, Shape(4, 100, 8)).find("--budget-mode: calibrated learns from audits"),
            std::string::npos);
  flags.audit_every = 8;
  EXPECT_EQ(Refusal(flags, Shape(4, 100, 8)), "");
}

TEST(ReplayFlagsTest, AFlagThatItsModeDoesNotKnowIsRefused) {
  ReplayFlags flags = Flags();
  flags.target_miss = 0.1;
  EXPECT_EQ(Refusal(flags, Shape(4, 100, 8)), "") << "of a policy file, which may have it";
  flags.given = {{"--target-miss", "0.1"}};
  EXPECT_EQ(Refusal(flags, Shape(4, 100, 8)),
            "--target-miss: is for --budget-mode target_miss, not for fixed");
  flags.budget_mode = "target_miss";
  flags.audit_every = 8;
  EXPECT_EQ(Refusal(flags, Shape(4, 100, 8)), "");
}

TEST(ReplayFlagsTest, AFlagWinsOverThePolicyFile) {
  CLI::App command("replay");
  ReplayFlags flags = Flags();
  AddReplayFlags(&command, &flags);
  command.parse("--sparsity 0.25");
  flags.policy_file.set_sparsity(0.75);
  flags.policy_file.add_layer_sparsity(0.5);
  flags.policy_file.set_exploration(0.125);
  flags.policy_file.set_budget_mode(v1::BUDGET_MODE_CALIBRATED);
  ApplyPolicyFile(command, &flags);
  EXPECT_EQ(flags.sparsity, 0.25);
  EXPECT_TRUE(flags.layer_sparsity.empty());
  EXPECT_EQ(flags.exploration, 0.125);
  EXPECT_EQ(flags.budget_mode, "calibrated");
}

TEST(ReplayFlagsTest, TheSlabGrowsWithTheContext) {
  const uint64_t small = SlabBytesFor(Flags(), {Shape(4, 100, 8)});
  const uint64_t large = SlabBytesFor(Flags(), {Shape(4, 1 << 20, 8)});
  EXPECT_GT(large - small, 2ull * 4 * 4 * (1 << 20));  // V and D in fp32
}

}  // namespace
}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "server/refusal.h"

namespace spin::server {
namespace {

using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string Refusal(const v1::Policy& change, int layers = 2) {
  return std::string(CheckPolicy(change, layers, "policy.").message());
}

TEST(PolicyTest, RatiosOutsideTheirRangeAreRefusedByName) {
  v1::Policy change;
  for (double bad : {1.0, 1.5, -0.1, kNan, std::numeric_limits<double>::infinity()}) {
    change.set_sparsity(bad);
    EXPECT_THAT(Refusal(change), HasSubstr("policy.sparsity")) << bad;
  }
  change.set_sparsity(0.999);
  change.set_exploration(1.0);
  EXPECT_EQ(Refusal(change), "");
  change.set_exploration(1.01);
  EXPECT_THAT(Refusal(change), HasSubstr("policy.exploration"));
  change.set_exploration(0);
  change.set_decay(1.0);
  EXPECT_THAT(Refusal(change), HasSubstr("policy.decay"));
}

TEST(PolicyTest, PerLayerValuesMustMatchTheLayers) {
  v1::Policy change;
  change.add_layer_sparsity(0.5);
  EXPECT_THAT(Refusal(change, 2), HasSubstr("1 values for 2 layers"));
  EXPECT_TRUE(CheckPolicy(change, 0, "policy.").ok()) << "each session takes what fits it";
  change.add_layer_sparsity(kNan);
  EXPECT_THAT(Refusal(change, 2), HasSubstr("policy.layer_sparsity[1]"));
  EXPECT_THAT(Refusal(change, 0), HasSubstr("policy.layer_sparsity[1]"));
  for (int i = 0; i < kernels::kMaxLayers; ++i) change.add_layer_sparsity(0.5);
  EXPECT_THAT(Refusal(change, 0), HasSubstr("at most 128"));
}

TEST(PolicyTest, OnlySetFieldsChange) {
  Policy policy;
  const Policy before = policy;
  v1::Policy change;
  change.set_decay(0.9);
  ApplyPolicy(change, &policy);
  EXPECT_EQ(policy.decay, 0.9);
  EXPECT_EQ(policy.sparsity, before.sparsity);
  EXPECT_EQ(policy.audit_every, before.audit_every);
  EXPECT_EQ(policy.enabled, before.enabled);
}

TEST(PolicyTest, SparsityAloneDropsPerLayerValues) {
  Policy policy;
  policy.layer_sparsity = {0.1, 0.9};
  v1::Policy change;
  change.set_sparsity(0.6);
  ApplyPolicy(change, &policy);
  EXPECT_EQ(policy.SparsityOf(0), 0.6);
  EXPECT_EQ(policy.SparsityOf(1), 0.6);
}

TEST(PolicyTest, TargetIsTheMeanOverLayers) {
  Policy policy;
  policy.layer_sparsity = {0.25, 0.75};
  EXPECT_EQ(policy.TargetSparsity(), 0.5);
  policy.enabled = false;
  EXPECT_EQ(policy.TargetSparsity(), 0);
}

TEST(PolicyTest, SwitchedOffKeepsAllBlocksAndNeverAudits) {
  Policy policy;
  policy.enabled = false;
  const kernels::Policy out = ToKernels(policy, 2);
  EXPECT_EQ(out.sparsity[0], 0);
  EXPECT_EQ(out.sparsity[1], 0);
  EXPECT_EQ(out.audit_every, 0u);
}

TEST(PolicyTest, SurvivesTheWire) {
  Policy policy;
  policy.layer_sparsity = {0.3, 0.4};
  policy.seed = ~uint64_t{0};
  policy.pin_first_block = true;
  policy.budget_mode = v1::BUDGET_MODE_TARGET_MISS;
  policy.target_miss = 0.02;
  policy.min_sparsity = 0.2;
  policy.max_sparsity = 0.8;
  Policy back;
  ApplyPolicy(ToProto(policy), &back);
  EXPECT_EQ(back.layer_sparsity, policy.layer_sparsity);
  EXPECT_EQ(back.seed, policy.seed);
  EXPECT_TRUE(back.pin_first_block);
  EXPECT_EQ(back.budget_mode, policy.budget_mode);
  EXPECT_EQ(back.target_miss, 0.02);
  EXPECT_EQ(back.min_sparsity, 0.2);
  EXPECT_EQ(back.max_sparsity, 0.8);
}

TEST(PolicyTest, BudgetsOutsideTheirRangeAreRefusedByName) {
  v1::Policy change;
  change.set_budget_mode(static_cast<v1::BudgetMode>(9));
  EXPECT_THAT(Refusal(change), HasSubstr("policy.budget_mode"));
  change.set_budget_mode(v1::BUDGET_MODE_TARGET_MISS);
  for (const double bad : {0.0, 1.0, kNan}) {
    change.set_target_miss(bad);
    EXPECT_THAT(Refusal(change), HasSubstr("policy.target_miss")) << bad;
  }
  change.set_target_miss(0.01);
  change.set_max_sparsity(1);
  EXPECT_THAT(Refusal(change), HasSubstr("policy.max_sparsity"));
  change.set_max_sparsity(0.5);
  change.set_min_sparsity(0.6);
  EXPECT_THAT(Refusal(change), HasSubstr("policy.min_sparsity"));
  change.set_min_sparsity(0.5);
  EXPECT_EQ(Refusal(change), "");
}

TEST(PolicyTest, FieldsThatDoNotGoTogetherAreNamed) {
  Policy policy;
  EXPECT_FALSE(ConflictIn(policy).has_value());
  policy.audit_every = 0;
  EXPECT_FALSE(ConflictIn(policy).has_value()) << "fixed budgets need no audits";
  policy.budget_mode = v1::BUDGET_MODE_CALIBRATED;
  EXPECT_EQ(ConflictIn(policy)->field, "audit_every");
  policy = Policy();
  policy.min_sparsity = 0.9;
  policy.max_sparsity = 0.1;
  EXPECT_EQ(ConflictIn(policy)->field, "min_sparsity");
}

TEST(PolicyTest, BudgetsOfAnotherModelBecomeTheirMean) {
  Policy policy;
  policy.layer_sparsity = {0.2, 0.6};
  EXPECT_EQ(policy.ForLayers(2).layer_sparsity, policy.layer_sparsity);
  EXPECT_TRUE(policy.ForLayers(3).layer_sparsity.empty());
  EXPECT_EQ(policy.ForLayers(3).sparsity, 0.4);
}

}  // namespace
}  // namespace spin::server

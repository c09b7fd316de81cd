// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "policy_file/policy_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace spin::policy_file {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string WithPolicy(const std::string& policy) {
  return R"({"format": "spin-policy", "version": 1, "policy": {)" + policy + "}}";
}

std::string RefusalOf(const std::string& json) {
  return std::string(Parse(json).status().message());
}

TEST(PolicyFileTest, WhatWasFormattedIsReadBack) {
  v1::Policy policy;
  policy.set_sparsity(0.61);
  policy.add_layer_sparsity(0.25);
  policy.add_layer_sparsity(0.97);
  policy.set_exploration(0.05);
  policy.set_decay(0.5);
  policy.set_seed(~uint64_t{0});
  policy.set_audit_every(~uint32_t{0});
  policy.set_pin_first_block(true);
  policy.set_enabled(false);
  policy.set_budget_mode(v1::BUDGET_MODE_TARGET_MISS);
  policy.set_target_miss(0.01);
  policy.set_min_sparsity(0.1);
  policy.set_max_sparsity(0.9);
  const auto back = Parse(Format(policy, R"({"made_by": "a test"})"));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->SerializeAsString(), policy.SerializeAsString());
}

TEST(PolicyFileTest, WhatIsLeftOutStaysUnset) {
  const auto policy = Parse(WithPolicy(R"("layer_sparsity": [0.5, 0])"));
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_THAT(policy->layer_sparsity(), ElementsAre(0.5, 0));
  EXPECT_FALSE(policy->has_sparsity());
  EXPECT_FALSE(policy->has_budget_mode());
}

TEST(PolicyFileTest, RefusalsNameTheField) {
  EXPECT_THAT(RefusalOf(WithPolicy(R"("sparsity": 1)")), HasSubstr("policy.sparsity: 1 is not"));
  EXPECT_THAT(RefusalOf(WithPolicy(R"("sparsity": "0.5")")), HasSubstr("policy.sparsity"));
  EXPECT_THAT(RefusalOf(WithPolicy(R"("layer_sparsity": [0.5, -1])")),
              HasSubstr("policy.layer_sparsity[1]: -1"));
  EXPECT_THAT(RefusalOf(WithPolicy(R"("layer_sparsity": 0.5)")), HasSubstr("one for each layer"));
  EXPECT_THAT(RefusalOf(WithPolicy(R"("exploration": 1.5)")), HasSubstr("[0, 1]"));
  EXPECT_THAT(RefusalOf(WithPolicy(R"("decay": null)")), HasSubstr("policy.decay"));
  EXPECT_THAT(RefusalOf(WithPolicy(R"("seed": -1)")), HasSubstr("policy.seed"));
  EXPECT_THAT(RefusalOf(WithPolicy(R"("audit_every": 4294967296)")), HasSubstr("4294967295"));
  EXPECT_THAT(RefusalOf(WithPolicy(R"("enabled": 1)")), HasSubstr("true or false"));
  EXPECT_THAT(RefusalOf(WithPolicy(R"("budget_mode": "auto")")), HasSubstr("calibrated"));
  EXPECT_THAT(RefusalOf(WithPolicy(R"("target_miss": 0)")), HasSubstr("(0, 1)"));
  EXPECT_THAT(RefusalOf(WithPolicy(R"("budget_mode": "target_miss")")),
              HasSubstr("policy.target_miss: is missing"));
  EXPECT_THAT(RefusalOf(WithPolicy(R"("min_sparsity": 0.9, "max_sparsity": 0.5)")),
              HasSubstr("policy.min_sparsity"));
  EXPECT_THAT(RefusalOf(WithPolicy(R"("sparsty": 0.5)")), HasSubstr("policy.sparsty"));
}

TEST(PolicyFileTest, RefusesWhatIsNoPolicyFile) {
  EXPECT_THAT(RefusalOf(""), HasSubstr("JSON"));
  EXPECT_THAT(RefusalOf("[1, 2"), HasSubstr("JSON"));
  EXPECT_THAT(RefusalOf("[]"), HasSubstr("object"));
  EXPECT_THAT(RefusalOf(R"({"policy": {}})"), HasSubstr("format"));
  EXPECT_THAT(RefusalOf(R"({"format": "spin-policy", "policy": {}})"), HasSubstr("version"));
  EXPECT_THAT(RefusalOf(R"({"format": "spin-policy", "version": 1})"), HasSubstr("policy"));
  EXPECT_THAT(RefusalOf(R"({"format": "spin-policy", "version": 1, "policy": {}, "x": 1})"),
              HasSubstr("x: "));
}

TEST(PolicyFileTest, AFileThatCannotBeReadIsNamed) {
  EXPECT_THAT(std::string(Read("/no/such/policy.json").status().message()),
              StartsWith("/no/such/policy.json: "));
  EXPECT_FALSE(Read("/").ok());
}

}  // namespace
}  // namespace spin::policy_file

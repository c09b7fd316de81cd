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
  EXPECT_THAT(RefusalOf(WithPolicy(R"("sparsty": 0.5)")), HasSubstr("policy.sparsty"));
}

TEST(PolicyFileTest, FieldsThatAFlagMayMendAreTaken) {
  EXPECT_TRUE(Parse(WithPolicy(R"("budget_mode": "target_miss")")).ok());
  EXPECT_TRUE(Parse(WithPolicy(R"("min_sparsity": 0.9, "max_sparsity": 0.5)")).ok());
}

std::string Nested(const std::string& open, const std::string& close, int levels) {
  std::string json;
  for (int i = 0; i < levels; ++i) json += open;
  json += "0";
  for (int i = 0; i < levels; ++i) json += close;
  return json;
}

TEST(PolicyFileTest, RefusesDeepNestingByTheFieldThatHasIt) {
  EXPECT_EQ(RefusalOf(WithPolicy("\"sparsity\": " + std::string(200'000, '['))),
            "policy.sparsity: has more than 8 levels");
  EXPECT_THAT(RefusalOf(WithPolicy("\"sparsity\": " + Nested("{\"a\":", "}", 50'000))),
              StartsWith("policy.sparsity.a.a.a.a.a.a: has more than 8 levels"));
  EXPECT_THAT(RefusalOf("{\"format\": " + Nested("[", "]", 50'000) + "}"),
              HasSubstr("format: has more than 8 levels"));
  EXPECT_THAT(RefusalOf(std::string(200'000, '[')), HasSubstr("has more than 8 levels"));
  const std::string rest = R"({"format": "spin-policy", "version": 1, "policy": {}, "origin": )";
  EXPECT_TRUE(Parse(rest + Nested("{\"a\":", "}", 7) + "}").ok());
  EXPECT_EQ(RefusalOf(rest + Nested("{\"a\":", "}", 8) + "}"),
            "origin.a.a.a.a.a.a.a: has more than 8 levels");
}

TEST(PolicyFileTest, RefusesWhatIsTooLarge) {
  EXPECT_THAT(RefusalOf(WithPolicy("\"sparsity\": \"" + std::string(1 << 20, 'x') + "\"")),
              HasSubstr("is larger than 1048576 bytes"));
  EXPECT_THAT(std::string(Read("/dev/zero").status().message()),
              HasSubstr("/dev/zero: is larger than"));
  std::string layers = "0.5";
  for (int i = 1; i < 129; ++i) layers += ",0.5";
  EXPECT_EQ(RefusalOf(WithPolicy("\"layer_sparsity\": [" + layers + "]")),
            "policy.layer_sparsity: 129 layers are more than Spin takes, 128");
}

TEST(PolicyFileTest, RefusesAFieldThatIsThereTwice) {
  EXPECT_EQ(RefusalOf(WithPolicy(R"("sparsity": 0.1, "sparsity": 0.9)")),
            "policy.sparsity: is there twice");
  EXPECT_EQ(RefusalOf(R"({"version": 2, "version": 1})"), "version: is there twice");
}

TEST(PolicyFileTest, ManyFieldsAreReadInOneGo) {
  std::string fields = "\"k\":1";
  for (int i = 0; i < 80'000; ++i) fields += ",\"k" + std::to_string(i) + "\":1";
  EXPECT_TRUE(
      Parse(R"({"format": "spin-policy", "version": 1, "policy": {}, "origin": {)" + fields + "}}")
          .ok());
}

TEST(PolicyFileTest, MessagesAreEscapedAndShort) {
  EXPECT_EQ(RefusalOf(WithPolicy(R"("\u001b[31mX\n": 0.5)")),
            "policy.\\x1b[31mX\\n: there is no such field");
  EXPECT_THAT(RefusalOf(WithPolicy(R"("sparsity": "\u001b[31m\u009b\u0000")")),
              HasSubstr(R"(policy.sparsity: "\u001b[31m\u009b\u0000" is not)"));
  EXPECT_THAT(RefusalOf(WithPolicy("\"decay\": \"" + std::string(1000, 'x') + "\"")),
              HasSubstr("xxx... is not a number"));
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

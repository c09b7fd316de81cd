// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <limits>

#include "client/cpp/options_check.h"

namespace spin::internal {
namespace {

using ::testing::StartsWith;

SessionOptions Good() {
  SessionOptions options;
  options.model = {.name = "m",
                   .layers = 2,
                   .block_slots = 64,
                   .topk = 512,
                   .tokens_per_slot = 1,
                   .max_slots = 8192};
  return options;
}

struct BadOption {
  const char* name;
  std::function<void(SessionOptions&)> spoil;
};

class BadOptionTest : public ::testing::TestWithParam<BadOption> {};

TEST_P(BadOptionTest, IsNamed) {
  SessionOptions options = Good();
  GetParam().spoil(options);
  const absl::Status status = CheckOptions(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), StartsWith(GetParam().name));
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

INSTANTIATE_TEST_SUITE_P(
    Options, BadOptionTest,
    ::testing::Values(
        BadOption{"model.name", [](auto& o) { o.model.name = ""; }},
        BadOption{"model.name", [](auto& o) { o.model.name = "a\"b"; }},
        BadOption{"socket: has 108", [](auto& o) { o.socket = std::string(108, 's'); }},
        BadOption{"socket: has 300", [](auto& o) { o.socket = std::string(300, 's'); }},
        BadOption{"model.layers", [](auto& o) { o.model.layers = 129; }},
        BadOption{"model.block_slots", [](auto& o) { o.model.block_slots = 65; }},
        BadOption{"model.topk", [](auto& o) { o.model.topk = 0; }},
        BadOption{"model.tokens_per_slot", [](auto& o) { o.model.tokens_per_slot = 0; }},
        BadOption{"model.max_slots", [](auto& o) { o.model.max_slots = -1; }},
        BadOption{"max_requests", [](auto& o) { o.max_requests = 513; }},
        BadOption{"max_next_n", [](auto& o) { o.max_next_n = 9; }},
        BadOption{"policy.sparsity", [](auto& o) { o.policy.sparsity = kNan; }},
        BadOption{"policy.exploration", [](auto& o) { o.policy.exploration = -0.1; }},
        BadOption{"policy.target_miss", [](auto& o) { o.policy.target_miss = 0.0; }},
        BadOption{"policy.min_sparsity",
                  [](auto& o) {
                    o.policy.min_sparsity = 0.5;
                    o.policy.max_sparsity = 0.4;
                  }},
        BadOption{"policy.decay", [](auto& o) { o.policy.decay = 1.0; }},
        BadOption{"policy.layer_sparsity", [](auto& o) { o.policy.layer_sparsity = {0.1}; }},
        BadOption{"policy.layer_sparsity[1]",
                  [](auto& o) {
                    o.policy.layer_sparsity = {0.1, 1.0};
                  }},
        BadOption{"step_timeout", [](auto& o) { o.step_timeout = absl::InfiniteDuration(); }},
        BadOption{"control_timeout", [](auto& o) { o.control_timeout = absl::ZeroDuration(); }}));

TEST(CheckOptionsTest, TakesGoodOnes) { EXPECT_TRUE(CheckOptions(Good()).ok()); }

TEST(CheckOptionsTest, TakesTheLongestSocketPath) {
  SessionOptions options = Good();
  options.socket = std::string(107, 's');
  EXPECT_TRUE(CheckOptions(options).ok());
}

TEST(SocketOfTest, TheOptionWinsOverTheEnvironmentWinsOverTheDefault) {
  SessionOptions options = Good();
  unsetenv("SPIN_SOCKET");
  EXPECT_EQ(SocketOf(options), "/run/spin/spind.sock");
  setenv("SPIN_SOCKET", "/tmp/env.sock", 1);
  EXPECT_EQ(SocketOf(options), "/tmp/env.sock");
  options.socket = "/tmp/option.sock";
  EXPECT_EQ(SocketOf(options), "/tmp/option.sock");
  unsetenv("SPIN_SOCKET");
}

}  // namespace
}  // namespace spin::internal

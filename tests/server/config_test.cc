// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/server/temp_folder.h"

namespace spin::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

ConfigOrExit Read(std::vector<std::string> args) {
  args.insert(args.begin(), "spind");
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  return ReadConfig(static_cast<int>(argv.size()), argv.data());
}

std::string Mistake(const std::vector<std::string>& args) {
  CaptureStderr();
  const ConfigOrExit read = Read(args);
  EXPECT_FALSE(read.config.has_value());
  EXPECT_EQ(read.exit_code, 2);
  return GetCapturedStderr();
}

TEST(ConfigTest, DefaultsAreThoseOfTheDocumentation) {
  const Config config = *Read({}).config;
  EXPECT_EQ(config.socket, "/run/spin/spind.sock");
  EXPECT_EQ(config.slab_bytes, 256u << 20);
  EXPECT_THAT(config.allow_uids, ElementsAre(getuid(), 0));
  EXPECT_EQ(config.policy.sparsity, 0.4);
  EXPECT_TRUE(config.policy.enabled);
}

TEST(ConfigTest, SizesTakeUnits) {
  EXPECT_EQ(Read({"--slab-bytes", "2GiB"}).config->slab_bytes, uint64_t{2} << 30);
  EXPECT_EQ(Read({"--slab-bytes", "1048576"}).config->slab_bytes, 1u << 20);
}

TEST(ConfigTest, FlagsWinOverEnvironmentWinsOverFile) {
  TempFolder folder;
  std::ofstream(folder.File("c.toml")) << "sparsity = 0.1\ndecay = 0.1\nexploration = 0.1\n";
  setenv("SPIND_SPARSITY", "0.2", 1);
  setenv("SPIND_DECAY", "0.2", 1);
  setenv("SPIND_PIN_FIRST_BLOCK", "true", 1);
  setenv("SPIND_ALLOW_UIDS", "7,8", 1);
  const Config config = *Read({"--config", folder.File("c.toml"), "--sparsity", "0.3"}).config;
  unsetenv("SPIND_SPARSITY");
  unsetenv("SPIND_DECAY");
  unsetenv("SPIND_PIN_FIRST_BLOCK");
  unsetenv("SPIND_ALLOW_UIDS");
  EXPECT_EQ(config.policy.sparsity, 0.3);
  EXPECT_EQ(config.policy.decay, 0.2);
  EXPECT_EQ(config.policy.exploration, 0.1);
  EXPECT_TRUE(config.policy.pin_first_block);
  EXPECT_THAT(config.allow_uids, ElementsAre(7, 8));
}

TEST(ConfigTest, AMistakeIsOneSentenceThatNamesTheFlag) {
  for (const char* bad : {"1.5", "-0.1", "nan", "inf", "x", ""}) {
    const std::string said = Mistake({std::string("--sparsity=") + bad});
    EXPECT_THAT(said, HasSubstr("--sparsity")) << bad;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
  EXPECT_THAT(Mistake({"--no-such-flag"}), HasSubstr("--no-such-flag"));
  EXPECT_THAT(Mistake({"--slab-bytes", "-5"}), HasSubstr("--slab-bytes"));
  EXPECT_THAT(Mistake({"--slab-bytes", "1"}), HasSubstr("--slab-bytes"));
  EXPECT_THAT(Mistake({"--state-dtype", "f16"}), HasSubstr("--state-dtype"));
  EXPECT_THAT(Mistake({"--step-queue", "0"}), HasSubstr("--step-queue"));
  EXPECT_THAT(Mistake({"--audit-every", "-1"}), HasSubstr("--audit-every"));
  EXPECT_THAT(Mistake({"--log-level", "loud"}), HasSubstr("--log-level"));
  EXPECT_THAT(Mistake({"--allow-uids", "0,root"}), HasSubstr("\"root\" is not a user number"));
}

TEST(ConfigTest, NumbersThatDoNotFitAreMistakes) {
  for (const char* bad : {"-1", "99999999999999999999999", "18446744073709551616", "1.5", "x"}) {
    EXPECT_THAT(Mistake({"--seed", bad}), HasSubstr("--seed: " + std::string(bad) + " is not"));
  }
  EXPECT_EQ(Read({"--seed", "18446744073709551615"}).config->policy.seed, UINT64_MAX);
  setenv("SPIND_SEED", "-1", 1);
  EXPECT_THAT(Mistake({}), HasSubstr("--seed: -1 is not"));
  unsetenv("SPIND_SEED");
  EXPECT_THAT(Mistake({"--audit-every", "4294967296"}), HasSubstr("--audit-every: 4294967296"));
}

TEST(ConfigTest, ASizeThatIsNoneIsToldWithAnExample) {
  for (const char* bad : {"3foo", "foo", "-5", "1", "8TiB", "99999999999999999999GiB"}) {
    EXPECT_THAT(Mistake({"--slab-bytes", bad}),
                AllOf(HasSubstr(std::string("--slab-bytes: ") + bad), HasSubstr("such as 512MiB"),
                      Not(HasSubstr("eib"))));
  }
}

TEST(ConfigTest, BothSidesOfASwitchAreAMistake) {
  EXPECT_THAT(Mistake({"--enabled", "--disabled"}), HasSubstr("--enabled excludes --disabled"));
  EXPECT_THAT(Mistake({"--disabled", "--enabled"}), HasSubstr("--enabled excludes --disabled"));
  EXPECT_FALSE(Read({"--disabled", "--disabled"}).config->policy.enabled);
  EXPECT_TRUE(Read({"--enabled", "--enabled=1"}).config->policy.enabled);
}

TEST(ConfigTest, ASwitchWinsOverItsOtherSideInTheEnvironmentAndTheFile) {
  TempFolder folder;
  std::ofstream(folder.File("c.toml")) << "enabled = true\n";
  setenv("SPIND_ENABLED", "true", 1);
  const Config config = *Read({"--config", folder.File("c.toml"), "--disabled"}).config;
  EXPECT_THAT(Mistake({"--disabled", "--enabled"}), HasSubstr("--enabled excludes --disabled"));
  unsetenv("SPIND_ENABLED");
  EXPECT_FALSE(config.policy.enabled);
}

TEST(ConfigTest, AnUnknownKeyInTheFileIsAMistake) {
  TempFolder folder;
  std::ofstream(folder.File("c.toml")) << "sparsety = 0.1\n";
  EXPECT_THAT(Mistake({"--config", folder.File("c.toml")}),
              HasSubstr("--config: sparsety is no setting"));
  EXPECT_THAT(Mistake({"--config", folder.File("missing.toml")}), HasSubstr("missing.toml"));
}

TEST(ConfigTest, WhatIsNoTomlOfOursIsExplained) {
  TempFolder folder;
  for (const auto& [text, said] : {std::pair("bogus\n", "--config: bogus is no setting"),
                                   std::pair("[policy]\nsparsity = 0.1\n", "--config: [policy]")}) {
    std::ofstream(folder.File("c.toml")) << text;
    EXPECT_THAT(Mistake({"--config", folder.File("c.toml")}),
                AllOf(HasSubstr(said), Not(HasSubstr("INI"))));
  }
}

TEST(ConfigTest, AVariableThatIsNoSettingIsAWarningAndNoMistake) {
  setenv("SPIND_SPARSTY", "0.2", 1);
  setenv("SPIND_CONFIG", "", 1);
  setenv("SPIND_WAIT_LIMIT_MS", "10", 1);
  const ConfigOrExit read = Read({});
  unsetenv("SPIND_SPARSTY");
  unsetenv("SPIND_CONFIG");
  unsetenv("SPIND_WAIT_LIMIT_MS");
  EXPECT_EQ(read.config->policy.sparsity, 0.4);
  EXPECT_THAT(read.warnings, ElementsAre(HasSubstr("SPIND_SPARSTY")));
  EXPECT_THAT(Read({}).warnings, IsEmpty());
}

TEST(ConfigTest, HelpAndVersionAreNoMistakes) {
  CaptureStdout();
  EXPECT_EQ(Read({"--help"}).exit_code, 0);
  const std::string help = GetCapturedStdout();
  for (const char* expected : {"--slab-bytes", "SPIND_SLAB_BYTES", "--allow-uids", "Examples"}) {
    EXPECT_THAT(help, HasSubstr(expected));
  }
  CaptureStdout();
  EXPECT_EQ(Read({"--version"}).exit_code, 0);
  EXPECT_THAT(GetCapturedStdout(), HasSubstr("spind "));
}

}  // namespace
}  // namespace spin::server

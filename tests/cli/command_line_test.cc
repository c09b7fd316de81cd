// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/command_line.h"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "client/cli/command.h"

namespace spin::cli {
namespace {

ParsedLine Parse(std::vector<const char*> words) {
  words.insert(words.begin(), "spinctl");
  CLI::App app("test", "spinctl");
  Action action;
  AddAllCommands(&app, &action);
  return ParseCommandLine(&app, static_cast<int>(words.size()), words.data());
}

std::string Refusal(std::vector<const char*> words) {
  const ParsedLine line = Parse(std::move(words));
  EXPECT_EQ(line.status.code(), absl::StatusCode::kInvalidArgument);
  return line.command + ": " + std::string(line.status.message());
}

TEST(CommandLineTest, EachBadValueNamesItsFlagAndWhatWasExpected) {
  EXPECT_EQ(Refusal({"replay", "--sparsity", "1.5"}),
            "spinctl replay: --sparsity: 1.5 is not in [0, 1)");
  EXPECT_EQ(Refusal({"replay", "--sparsity", "1"}),
            "spinctl replay: --sparsity: 1 is not in [0, 1)");
  EXPECT_EQ(Refusal({"replay", "--sparsity", "nan"}),
            "spinctl replay: --sparsity: nan is not in [0, 1)");
  EXPECT_EQ(Refusal({"replay", "--sparsity", "-0.1"}),
            "spinctl replay: --sparsity: -0.1 is not in [0, 1)");
  EXPECT_EQ(Refusal({"replay", "--sparsity="}), "spinctl replay: --sparsity: the value is missing");
  EXPECT_EQ(Refusal({"replay", "--exploration", "1.01"}),
            "spinctl replay: --exploration: 1.01 is not in [0, 1]");
  EXPECT_EQ(Refusal({"replay", "--alpha", "1"}), "spinctl replay: --alpha: 1 is not in [0, 1)");
  EXPECT_EQ(Refusal({"replay", "--topk", "0"}),
            "spinctl replay: --topk: 0 is not a whole number from 1 to 2048");
  EXPECT_EQ(Refusal({"replay", "--topk", "2049"}),
            "spinctl replay: --topk: 2049 is not a whole number from 1 to 2048");
  EXPECT_EQ(Refusal({"replay", "--topk", "-5"}),
            "spinctl replay: --topk: -5 is not a whole number from 1 to 2048");
  EXPECT_EQ(Refusal({"replay", "--topk", "12x"}),
            "spinctl replay: --topk: 12x is not a whole number from 1 to 2048");
  EXPECT_EQ(Refusal({"replay", "--executor", "gpu"}),
            "spinctl replay: --executor: gpu is not one of: inline, sidecar");
  EXPECT_EQ(Refusal({"replay", "--block", "48"}),
            "spinctl replay: --block: 48 is not one of: 16, 32, 64, 128");
  EXPECT_EQ(Refusal({"replay", "--layer-sparsity", "0.3,2"}),
            "spinctl replay: --layer-sparsity: 2 is not in [0, 1)");
  EXPECT_EQ(Refusal({"replay", "--layer-sparsity", "0.1,,0.2"}),
            "spinctl replay: --layer-sparsity: '' is not in [0, 1)");
  EXPECT_EQ(Refusal({"policy", "set", "--layer-sparsity", "0.1,"}),
            "spinctl policy set: --layer-sparsity: '' is not in [0, 1)");
  EXPECT_EQ(Refusal({"eval", "f", "--topk", "1", "--sparsity", ",0.5"}),
            "spinctl eval: --sparsity: '' is not in [0, 1)");
  EXPECT_EQ(Refusal({"replay", "--seed", "-1"}),
            "spinctl replay: --seed: -1 is not a whole number from 0 to 2^64 - 1");
  EXPECT_EQ(Refusal({"plan", "--context", "-1"}),
            "spinctl plan: --context: -1 is not a whole number from 1 to 268435456");
  EXPECT_EQ(Refusal({"plan", "--context", "0"}),
            "spinctl plan: --context: 0 is not a whole number from 1 to 268435456");
  EXPECT_EQ(Refusal({"status", "--socket", ""}), "spinctl status: --socket: '' is not a path");
  EXPECT_EQ(Refusal({"replay", "--socket", ""}), "spinctl replay: --socket: '' is not a path");
  EXPECT_EQ(Refusal({"top", "--interval", "5ms"}),
            "spinctl top: --interval: 5ms is not a duration from 100ms to 1h, such as 500ms or 2s");
}

TEST(CommandLineTest, AFlagThatIsRepeatedIsRefused) {
  EXPECT_EQ(Refusal({"replay", "--topk", "1", "--topk", "2"}),
            "spinctl replay: --topk: given more than once");
}

TEST(CommandLineTest, UnknownWordsGetASuggestion) {
  EXPECT_EQ(Refusal({"replay", "--sparsty", "0.4"}),
            "spinctl replay: unknown flag --sparsty; did you mean --sparsity? (see 'spinctl replay "
            "--help')");
  EXPECT_EQ(Refusal({"statu"}),
            "spinctl: unexpected argument statu; did you mean status? (see 'spinctl --help')");
  EXPECT_EQ(Refusal({"policy"}), "spinctl policy: say which command (see 'spinctl policy --help')");
}

TEST(CommandLineTest, FlagsThatExcludeEachOtherAreRefused) {
  EXPECT_EQ(Refusal({"replay", "--socket", "/x", "--hold"}),
            "spinctl replay: --socket excludes --hold");
  EXPECT_EQ(Refusal({"policy", "set", "--enable", "--disable"}),
            "spinctl policy set: --enable excludes --disable");
}

TEST(CommandLineTest, HelpOfACommandIsItsOwnAndHasExamples) {
  const ParsedLine line = Parse({"policy", "set", "--help"});
  EXPECT_TRUE(line.status.ok());
  EXPECT_NE(line.output.find("Usage: spinctl policy set"), std::string::npos) << line.output;
  EXPECT_NE(line.output.find("Examples:"), std::string::npos) << line.output;
}

TEST(CommandLineTest, HelpOfSpinctlDocumentsExitCodes) {
  EXPECT_NE(Parse({"--help"}).output.find("Exit codes:"), std::string::npos);
}

TEST(CommandLineTest, GoodLinesArriveAtTheirCommand) {
  EXPECT_TRUE(Parse({"replay", "--trace", "f", "--topk", "128", "--sparsity", "0"}).status.ok());
  EXPECT_EQ(Parse({"policy", "get"}).command, "spinctl policy get");
  EXPECT_TRUE(Parse({"sessions", "3f9a", "--json"}).status.ok());
}

}  // namespace
}  // namespace spin::cli

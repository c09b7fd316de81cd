// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/completion/tree.h"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <string>

#include "client/cli/command.h"

namespace spin::cli {
namespace {

class CompletionTest : public ::testing::Test {
 protected:
  CompletionTest() : app_("test", "spinctl") {
    AddAllCommands(&app_, &action_);
    tree_ = ReadTree(app_);
  }

  // Every command, and every flag in the form in which a script writes it.
  void ExpectAllIn(const std::string& script, const std::string& flag_prefix) {
    ForEachCommand(tree_, [&](const CompletionCommand& command) {
      if (!command.path.empty()) {
        EXPECT_NE(script.find(command.path.back()), std::string::npos) << command.path.back();
      }
      for (const CompletionFlag& flag : command.flags) {
        EXPECT_NE(script.find(flag_prefix + flag.name.substr(2)), std::string::npos) << flag.name;
      }
    });
  }

  CLI::App app_;
  Action action_;
  CompletionCommand tree_;
};

TEST_F(CompletionTest, TheTreeHasEveryCommandAndTheirFlags) {
  std::string paths;
  size_t flags = 0;
  ForEachCommand(tree_, [&](const CompletionCommand& command) {
    for (const std::string& name : command.path) paths += "/" + name;
    paths += " ";
    flags += command.flags.size();
  });
  EXPECT_EQ(paths,
            " /replay /eval /tune /record /status /sessions /plan /policy /policy/get /policy/set "
            "/top /doctor "
            "/completion ");
  EXPECT_GT(flags, 40u);
}

TEST_F(CompletionTest, ArgumentsThatAreFilesAreKnown) {
  ForEachCommand(tree_, [](const CompletionCommand& command) {
    const bool files =
        !command.path.empty() && (command.path.back() == "eval" || command.path.back() == "tune");
    EXPECT_EQ(command.files, files);
  });
  EXPECT_NE(BashScript(tree_).find("files=1"), std::string::npos);
  EXPECT_NE(ZshScript(tree_).find("'*:file:_files'"), std::string::npos);
  EXPECT_NE(FishScript(tree_).find("eval' -F"), std::string::npos);
}

TEST_F(CompletionTest, ChoicesAndFilesAreKnown) {
  const CompletionCommand& replay = tree_.commands[0];
  for (const CompletionFlag& flag : replay.flags) {
    const bool choice = flag.name == "--executor" || flag.name == "--state" ||
                        flag.name == "--block" || flag.name == "--budget-mode";
    EXPECT_EQ(!flag.choices.empty(), choice) << flag.name;
    const bool path = flag.name == "--trace" || flag.name == "--socket" || flag.name == "--spind" ||
                      flag.name == "--policy" || flag.name == "--then";
    EXPECT_EQ(flag.file, path) << flag.name;
  }
}

TEST_F(CompletionTest, EveryScriptHasEveryCommandAndFlag) {
  ExpectAllIn(BashScript(tree_), "--");
  ExpectAllIn(ZshScript(tree_), "--");
  ExpectAllIn(FishScript(tree_), "-l ");
}

// The script at work, in the shell that every build machine has.
std::string Complete(const std::string& script, const std::string& words) {
  const std::string program =
      script + "\nCOMP_WORDS=(" + words +
      "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _spinctl; echo \"${COMPREPLY[*]}\"";
  std::FILE* shell = popen(("bash -c '" + program + "'").c_str(), "r");
  char line[4096] = "";
  EXPECT_NE(std::fgets(line, sizeof(line), shell), nullptr);
  pclose(shell);
  return line;
}

TEST_F(CompletionTest, BashCompletesCommandsFlagsAndValues) {
  std::string script = BashScript(tree_);
  for (size_t at; (at = script.find('\'')) != std::string::npos;) script.replace(at, 1, "\"");
  EXPECT_EQ(Complete(script, "spinctl re"), "replay record\n");
  EXPECT_EQ(Complete(script, "spinctl policy s"), "set\n");
  EXPECT_EQ(Complete(script, "spinctl policy set --dis"), "--disable\n");
  EXPECT_EQ(Complete(script, "spinctl replay --executor \"\""), "inline sidecar\n");
  EXPECT_EQ(Complete(script, "spinctl completion z"), "zsh\n");
}

}  // namespace
}  // namespace spin::cli

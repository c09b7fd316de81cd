// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/spawn/child_process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "absl/time/clock.h"

namespace spin::cli {
namespace {

// Ends by itself if the test does not end it.
std::vector<std::string> Shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

void WaitUntilGone(ChildProcess* child) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (child->Running() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_FALSE(child->Running());
}

TEST(ChildProcessTest, KeepsWhatItSaysOnStderrOnly) {
  auto child = ChildProcess::Start(Shell("echo out; echo err >&2"), "UNSET_");
  ASSERT_TRUE(child.ok()) << child.status();
  WaitUntilGone(child->get());
  EXPECT_EQ((*child)->Log(), "err\n");
}

TEST(ChildProcessTest, DoesNotInheritVariablesOfThePrefix) {
  setenv("UNSET_ME", "1", 1);
  setenv("KEEP_ME", "2", 1);
  auto child = ChildProcess::Start(Shell("echo $UNSET_ME$KEEP_ME >&2"), "UNSET_");
  ASSERT_TRUE(child.ok()) << child.status();
  WaitUntilGone(child->get());
  EXPECT_EQ((*child)->Log(), "2\n");
}

TEST(ChildProcessTest, SaysWhyAProgramCannotStart) {
  const auto child = ChildProcess::Start({"/no/such/program"}, "UNSET_");
  EXPECT_EQ(child.status().message(), "cannot start /no/such/program: No such file or directory");
}

TEST(ChildProcessTest, EndsWithItsOwner) {
  auto child = ChildProcess::Start(Shell("exec sleep 60"), "UNSET_");
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_TRUE((*child)->Running());
  const absl::Time start = absl::Now();
  (*child)->Stop();
  EXPECT_FALSE((*child)->Running());
  EXPECT_LT(absl::Now() - start, ChildProcess::kStopTimeout);
  (*child)->Stop();  // harmless
}

}  // namespace
}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "spin/recording.h"

namespace spin {
namespace {

TEST(RecordingSampleTest, TakesOneRequestInSoManyAndTheSameOnesAgain) {
  const Recording recording = {.sample_every = 10, .sample_seed = 7};
  int drawn = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::string key = absl::StrCat("chat-", i);
    drawn += recording.Draws(key) ? 1 : 0;
    EXPECT_EQ(recording.Draws(key), recording.Draws(key));
  }
  EXPECT_NEAR(drawn, 1000, 120);  // four standard deviations
}

TEST(RecordingSampleTest, AnotherSeedTakesOthersAndOneInOneTakesAll) {
  const Recording one = {.sample_every = 2, .sample_seed = 1}, other = {.sample_every = 2};
  int differ = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string key = absl::StrCat(i);
    differ += one.Draws(key) != other.Draws(key) ? 1 : 0;
    EXPECT_TRUE(Recording{}.Draws(key));
  }
  EXPECT_NEAR(differ, 100, 30);
}

TEST(RecordingSampleTest, SeveralTracesHaveNumbersInTheirNames) {
  Recording recording = {.path = "/tmp/chat.safetensors"};
  EXPECT_EQ(recording.PathOf(0), "/tmp/chat.safetensors");
  recording.max_requests = 2;
  EXPECT_EQ(recording.PathOf(0), "/tmp/chat-1.safetensors");
  EXPECT_EQ(recording.PathOf(1), "/tmp/chat-2.safetensors");
}

}  // namespace
}  // namespace spin

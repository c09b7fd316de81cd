// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/word.h"

#include <gtest/gtest.h>

#include <thread>

namespace spin::kernels {
namespace {

TEST(WordTest, ReachedFromItsValueOn) {
  uint64_t word = 0;
  Raise(word, 7);
  EXPECT_TRUE(Reached(word, 6));
  EXPECT_TRUE(Reached(word, 7));
  EXPECT_FALSE(Reached(word, 8));
}

TEST(WordTest, WaitForAReachedValueSucceedsWithoutTime) {
  uint64_t word = 7;
  EXPECT_TRUE(WaitReached(word, 7, absl::ZeroDuration()));
}

TEST(WordTest, WaitEndsAtItsLimit) {
  uint64_t word = 7;
  EXPECT_FALSE(WaitReached(word, 8, absl::ZeroDuration()));
  EXPECT_FALSE(WaitReached(word, 8, absl::Milliseconds(1)));
}

TEST(WordTest, WhatWasWrittenBeforeARaiseIsSeenAfterTheWait) {
  uint64_t word = 0;
  int written = 0;  // a data race unless the word orders it
  std::thread writer([&] {
    for (int step = 1; step <= 1000; ++step) {
      written = step;
      Raise(word, step);
    }
  });
  EXPECT_TRUE(WaitReached(word, 1000, absl::InfiniteDuration()));
  EXPECT_EQ(written, 1000);
  writer.join();
}

}  // namespace
}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace spin::server {
namespace {

TEST(WorkQueueTest, RunsInOrder) {
  std::vector<int> seen;
  WorkQueue queue("test", 100);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(queue.TryPush([&seen, i] { seen.push_back(i); }));
  queue.Stop();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i);
}

TEST(WorkQueueTest, RefusesWhenFull) {
  absl::Notification started, release;
  WorkQueue queue("test", 2);
  ASSERT_TRUE(queue.TryPush([&] {
    started.Notify();
    release.WaitForNotification();
  }));
  started.WaitForNotification();  // taken off the queue, so two more fit
  EXPECT_TRUE(queue.TryPush([] {}));
  EXPECT_TRUE(queue.TryPush([] {}));
  EXPECT_FALSE(queue.TryPush([] {}));
  EXPECT_EQ(queue.depth(), 2u);
  release.Notify();
}

TEST(WorkQueueTest, StopRunsWhatWasTakenAndTakesNoMore) {
  std::atomic<int> ran = 0;
  WorkQueue queue("test", 10);
  for (int i = 0; i < 10; ++i) (void)queue.TryPush([&] { ++ran; });
  queue.Stop();
  const int after_stop = ran;
  EXPECT_FALSE(queue.TryPush([&] { ++ran; }));
  EXPECT_EQ(after_stop, 10);
  EXPECT_EQ(ran, 10);
}

TEST(WorkQueueTest, KnowsHowLongItHasBeenAtOnePiece) {
  absl::Notification started, release;
  WorkQueue queue("test", 2);
  EXPECT_FALSE(queue.StuckFor(absl::ZeroDuration()));
  ASSERT_TRUE(queue.TryPush([&] {
    started.Notify();
    release.WaitForNotification();
  }));
  started.WaitForNotification();
  EXPECT_TRUE(queue.StuckFor(absl::ZeroDuration()));
  EXPECT_FALSE(queue.StuckFor(absl::Hours(1)));
  release.Notify();
}

TEST(WorkQueueTest, TakesFromManyThreads) {
  std::atomic<int> ran = 0;
  WorkQueue queue("test", 100000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) ASSERT_TRUE(queue.TryPush([&] { ++ran; }));
    });
  }
  for (std::thread& thread : threads) thread.join();
  queue.Stop();
  EXPECT_EQ(ran, 4000);
}

}  // namespace
}  // namespace spin::server

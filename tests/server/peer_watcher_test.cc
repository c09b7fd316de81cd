// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/peer_watcher.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/synchronization/notification.h"

namespace spin::server {
namespace {

class PeerWatcherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    watcher_ = *PeerWatcher::Create({.on_hangup =
                                         [this](uint64_t connection) {
                                           hung_up_connection_ = connection;
                                           if (!hung_up_.HasBeenNotified()) hung_up_.Notify();
                                         },
                                     .on_exit =
                                         [this](pid_t pid) {
                                           exited_pid_ = pid;
                                           exited_.Notify();
                                         }});
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0);
  }
  void TearDown() override {
    watcher_ = nullptr;
    close(ends_[0]);
  }

  std::unique_ptr<PeerWatcher> watcher_;
  int ends_[2];
  uint64_t hung_up_connection_ = 0;
  pid_t exited_pid_ = 0;
  absl::Notification hung_up_, exited_;
};

TEST_F(PeerWatcherTest, FindsThePeerByWhatGrpcCallsIt) {
  const Peer peer = watcher_->Add(ends_[0], 0, 1000);
  const auto found = watcher_->Find("fd:" + std::to_string(ends_[0]));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->connection, peer.connection);
  EXPECT_EQ(found->uid, 1000u);
  EXPECT_FALSE(watcher_->Find("fd:99999").has_value());
  EXPECT_FALSE(watcher_->Find("ipv4:127.0.0.1:1").has_value());
  close(ends_[1]);
}

TEST_F(PeerWatcherTest, NoticesAHangUp) {
  const Peer peer = watcher_->Add(ends_[0], 0, 1000);
  close(ends_[1]);
  ASSERT_TRUE(hung_up_.WaitForNotificationWithTimeout(absl::Seconds(10)));
  EXPECT_EQ(hung_up_connection_, peer.connection);
  EXPECT_EQ(watcher_->connections(), 0u);
  EXPECT_FALSE(watcher_->Find("fd:" + std::to_string(ends_[0])).has_value());
}

TEST_F(PeerWatcherTest, AReusedDescriptorNumberIsAnotherConnection) {
  const Peer first = watcher_->Add(ends_[0], 0, 1000);
  const Peer second = watcher_->Add(ends_[0], 0, 1001);
  EXPECT_NE(first.connection, second.connection);
  EXPECT_EQ(watcher_->Find("fd:" + std::to_string(ends_[0]))->uid, 1001u);
  close(ends_[1]);
}

TEST_F(PeerWatcherTest, NoticesAnExitEvenIfAnotherProcessHoldsTheSocket) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  watcher_->Add(ends_[0], child, 1000);  // we still hold ends_[1], as a grandchild would
  kill(child, SIGKILL);
  ASSERT_TRUE(exited_.WaitForNotificationWithTimeout(absl::Seconds(10)));
  EXPECT_EQ(exited_pid_, child);
  EXPECT_EQ(watcher_->connections(), 1u);
  waitpid(child, nullptr, 0);
  close(ends_[1]);
}

}  // namespace
}  // namespace spin::server

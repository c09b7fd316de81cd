// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/session_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "server/refusal.h"
#include "server/validate.h"
#include "tests/server/session_fixture.h"

namespace spin::server {
namespace {

class SessionTableTest : public SessionFixture {
 protected:
  uint64_t Opened(const std::shared_ptr<Session>& session) {
    EXPECT_TRUE(sessions_.Add(session).ok());
    return session->identity().id;
  }
  uint64_t AllEnds() {
    return std::accumulate(kEndReasons.begin(), kEndReasons.end(), uint64_t{0},
                           [this](uint64_t sum, EndReason r) { return sum + sessions_.ended(r); });
  }
};

TEST_F(SessionTableTest, AnUnknownSessionIsSaidToBeUnknown) {
  const auto found = sessions_.Find(42);
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(DetailOf(found.status()).reason(), v1::ERROR_REASON_UNKNOWN_SESSION);
}

TEST_F(SessionTableTest, ACleanCloseFreesAtOnce) {
  const uint64_t id = Opened(MakeSession());
  EXPECT_GT(used(), 0u);
  EXPECT_TRUE(sessions_.End(id, EndReason::kClosed));
  EXPECT_EQ(used(), 0u);
  EXPECT_FALSE(sessions_.End(id, EndReason::kClosed));
}

TEST_F(SessionTableTest, ALostStreamKeepsTheMemoryUntilTheProcessIsGone) {
  const uint64_t id = Opened(MakeSession("m", 4711));
  sessions_.End(id, EndReason::kDetached);
  EXPECT_GT(used(), 0u);
  EXPECT_EQ(quarantine_.bytes(), used());
  sessions_.EndProcess(4711);
  EXPECT_EQ(used(), 0u);
}

TEST_F(SessionTableTest, AProcessTakesOnlyItsOwnSessionsAlong) {
  Opened(MakeSession("m", 1));
  Opened(MakeSession("m", 1));
  const uint64_t other = Opened(MakeSession("m", 2));
  sessions_.EndProcess(1);
  ASSERT_EQ(sessions_.All().size(), 1u);
  EXPECT_EQ(sessions_.All()[0]->identity().id, other);
}

TEST_F(SessionTableTest, AConnectionTakesOnlyUnattachedSessionsAlong) {
  struct Listener : SessionListener {
    void OnPolicyChanged(std::shared_ptr<const PolicyInForce>) override {}
    void OnRecordingOrdered(const v1::RecordingOrder&) override {}
    void OnEnded(const absl::Status&) override {}
  } listener;
  const auto attached = MakeSession("m", 0, 5);
  Opened(attached);
  ASSERT_TRUE(attached->Attach(&listener));
  const uint64_t loose = Opened(MakeSession("m", 0, 5));
  sessions_.EndUnattached(5);
  EXPECT_TRUE(sessions_.Find(attached->identity().id).ok());
  EXPECT_FALSE(sessions_.Find(loose).ok());
  attached->Detach(&listener);
}

TEST_F(SessionTableTest, EndsCompeteButCountOnce) {
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t id = Opened(MakeSession("m", 4711));
    std::atomic<int> wins = 0;
    std::thread client([&] { wins += sessions_.End(id, EndReason::kClosed); });
    std::thread stream([&] { wins += sessions_.End(id, EndReason::kDetached); });
    sessions_.EndProcess(4711);
    client.join();
    stream.join();
    ASSERT_LE(wins, 1);
  }
  EXPECT_EQ(AllEnds(), kRounds);
  EXPECT_EQ(sessions_.opened(), kRounds);
  sessions_.EndProcess(4711);
  EXPECT_EQ(used(), 0u);
}

TEST_F(SessionTableTest, TotalsOfAModelNeverDropWhenASessionCloses) {
  const auto first = MakeSession("m");
  const auto second = MakeSession("m");
  Opened(first);
  Opened(second);
  first->region().view().counters[0].considered_blocks = 5;
  second->region().view().counters[1].considered_blocks = 7;
  const auto considered = [this](int layer) {
    return sessions_.TotalsByModel().at("m").totals.layers[layer].considered_blocks;
  };
  EXPECT_EQ(considered(0), 5u);
  sessions_.End(first->identity().id, EndReason::kClosed);
  EXPECT_EQ(considered(0), 5u);
  EXPECT_EQ(considered(1), 7u);
  EXPECT_EQ(sessions_.TotalsByModel().at("m").open_sessions, 1);
}

TEST_F(SessionTableTest, AModelHasItsSeriesAtZeroFromTheFirstSession) {
  Opened(MakeSession("fresh"));
  const auto totals = sessions_.TotalsByModel().at("fresh").totals;
  ASSERT_EQ(totals.layers.size(), 2u);
  EXPECT_EQ(totals.layers[1].full_blocks, 0u);
}

TEST_F(SessionTableTest, EndlesslyManyModelNamesDoNotMakeEndlesslyManySeries) {
  for (int i = 0; i < 100; ++i) {
    const uint64_t id = Opened(MakeSession("model-" + std::to_string(i)));
    sessions_.End(id, EndReason::kClosed);
  }
  EXPECT_LE(sessions_.TotalsByModel().size(), 33u);
  EXPECT_TRUE(sessions_.TotalsByModel().contains("other"));
}

TEST_F(SessionTableTest, ScrapesAndChangesMayMeet) {
  std::atomic<bool> stop = false;
  std::thread scraper([&] {
    while (!stop) {
      for (const auto& [model, totals] : sessions_.TotalsByModel())
        ASSERT_GE(totals.open_sessions, 0);
    }
  });
  for (int round = 0; round < 200; ++round) {
    const auto session = MakeSession("m");
    const uint64_t id = Opened(session);
    ASSERT_TRUE(session->requests().Open("a", 100, nullptr).ok());
    v1::Policy change;
    change.set_sparsity(0.1);
    session->UpdatePolicy(change);
    sessions_.End(id, EndReason::kClosed);
  }
  stop = true;
  scraper.join();
}

}  // namespace
}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/quarantine.h"

#include <gtest/gtest.h>

#include "tests/server/session_fixture.h"

namespace spin::server {
namespace {

class QuarantineTest : public SessionFixture {};

TEST_F(QuarantineTest, ReleasesAfterTheBoundByItself) {
  std::weak_ptr<Session> watched;
  Quarantine quarantine(absl::Milliseconds(1));
  {
    auto session = MakeSession();
    watched = session;
    quarantine.Hold(0, std::move(session));
  }
  const absl::Time limit = absl::Now() + absl::Seconds(10);
  while (!watched.expired() && absl::Now() < limit) std::this_thread::yield();
  EXPECT_TRUE(watched.expired());
}

TEST_F(QuarantineTest, TheEndOfTheProcessReleasesBeforeTheBound) {
  Quarantine quarantine(absl::Hours(1));
  quarantine.Hold(4711, MakeSession());
  quarantine.Hold(4712, MakeSession());
  const uint64_t both = quarantine.bytes();
  quarantine.ReleaseProcess(4711);
  EXPECT_EQ(quarantine.bytes(), both / 2);
  EXPECT_EQ(used(), both / 2);
}

}  // namespace
}  // namespace spin::server

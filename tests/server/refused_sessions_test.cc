// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/refused_sessions.h"

#include <gtest/gtest.h>

namespace spin::server {
namespace {

TEST(RefusedSessionsTest, AnEngineThatAsksOnIsToldOnceAMinute) {
  RefusedSessions refused;
  absl::Time now = absl::UnixEpoch();
  int told = 0;
  for (int i = 0; i < 5 * 60 * 5; ++i, now += absl::Milliseconds(200))
    told += refused.IsNews(7, now);
  EXPECT_EQ(told, 5);
}

TEST(RefusedSessionsTest, EachProcessIsToldByItself) {
  RefusedSessions refused;
  const absl::Time now = absl::UnixEpoch();
  EXPECT_TRUE(refused.IsNews(7, now));
  EXPECT_TRUE(refused.IsNews(8, now));
  EXPECT_FALSE(refused.IsNews(7, now));
  EXPECT_FALSE(refused.IsNews(8, now));
}

}  // namespace
}  // namespace spin::server

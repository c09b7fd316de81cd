// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/server/temp_folder.h"

namespace spin::server {
namespace {

using ::testing::HasSubstr;

TEST(SocketLockTest, IsTakenOnce) {
  TempFolder folder;
  {
    const auto first = SocketLock::Take(folder.File("s"));
    ASSERT_TRUE(first.ok()) << first.status();
    const auto second = SocketLock::Take(folder.File("s"));
    EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(second.status().message()), HasSubstr("another spind"));
  }
  EXPECT_TRUE(SocketLock::Take(folder.File("s")).ok());
}

TEST(SocketLockTest, APathTooLongForASocketIsExplained) {
  const std::string path = "/tmp/" + std::string(103, 'x');  // 108 characters
  EXPECT_THAT(std::string(SocketLock::Take(path).status().message()),
              HasSubstr("108 characters, but a unix socket takes 1 to 107"));
  EXPECT_FALSE(SocketLock::Take("").ok());
}

TEST(SocketLockTest, AMissingFolderIsExplained) {
  EXPECT_THAT(std::string(SocketLock::Take("/nonexistent/folder/s").status().message()),
              HasSubstr("create its folder"));
}

}  // namespace
}  // namespace spin::server

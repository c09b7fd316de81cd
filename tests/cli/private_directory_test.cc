// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/spawn/private_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace spin::cli {
namespace {

namespace fs = std::filesystem;

class PrivateDirectoryTest : public ::testing::Test {
 protected:
  PrivateDirectoryTest() {
    char name[] = "/tmp/spin-test-XXXXXX";
    parent_ = mkdtemp(name);
    setenv("TMPDIR", parent_.c_str(), 1);
  }
  ~PrivateDirectoryTest() override {
    unsetenv("TMPDIR");
    fs::remove_all(parent_);
  }

  static void MakeOld(const fs::path& path) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }

  std::string parent_;
};

TEST_F(PrivateDirectoryTest, IsOursAloneAndGoesWithAllThatIsInIt) {
  auto directory = PrivateDirectory::Create();
  ASSERT_TRUE(directory.ok()) << directory.status();
  const std::string path = (*directory)->path();
  EXPECT_EQ(fs::path(path).parent_path(), parent_);
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
  std::ofstream(path + "/file") << "text";
  directory->reset();
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(PrivateDirectoryTest, WhatAKilledProcessLeftIsRemovedByTheNext) {
  fs::create_directory(parent_ + "/spinctl-killed");
  std::ofstream(parent_ + "/spinctl-killed/spind.sock.lock") << "";
  MakeOld(parent_ + "/spinctl-killed");
  fs::create_directory(parent_ + "/another");
  MakeOld(parent_ + "/another");
  EXPECT_EQ(RemoveAbandonedDirectories(parent_), 1);
  EXPECT_FALSE(fs::exists(parent_ + "/spinctl-killed"));
  EXPECT_TRUE(fs::exists(parent_ + "/another"));
}

TEST_F(PrivateDirectoryTest, LivingAndYoungOnesAreLeftAlone) {
  auto living = PrivateDirectory::Create();
  ASSERT_TRUE(living.ok()) << living.status();
  MakeOld((*living)->path());
  fs::create_directory(parent_ + "/spinctl-young");
  EXPECT_EQ(RemoveAbandonedDirectories(parent_), 0);
  EXPECT_TRUE(fs::exists((*living)->path()));
}

TEST_F(PrivateDirectoryTest, ALongTmpdirIsPassedOver) {
  setenv("TMPDIR", (parent_ + std::string(100, 'x')).c_str(), 1);
  auto directory = PrivateDirectory::Create();
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_EQ(fs::path((*directory)->path()).parent_path(), "/tmp");
}

}  // namespace
}  // namespace spin::cli

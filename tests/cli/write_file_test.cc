// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/write_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/server/temp_folder.h"

namespace spin::cli {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class WriteFileTest : public ::testing::Test {
 protected:
  std::string Refusal(const std::string& path) {
    const absl::Status status = WriteFile(path, "text");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(CheckOutput(path, {}), status);
    return std::string(status.message());
  }

  int64_t FilesThere() const {
    const std::filesystem::directory_iterator files(folder_.path());
    return std::distance(begin(files), end(files));
  }

  server::TempFolder folder_;
  const std::string path_ = folder_.File("out");
};

TEST_F(WriteFileTest, ReplacesARegularFileAndKeepsItsMode) {
  ASSERT_TRUE(WriteFile(path_, "one").ok());
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  ASSERT_TRUE(WriteFile(path_, "two").ok());
  EXPECT_EQ(Contents(path_), "two");
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  EXPECT_EQ(FilesThere(), 1);
}

TEST_F(WriteFileTest, WhatLooksLikeItsTemporaryFileStays) {
  const std::string other = path_ + ".partial";
  std::ofstream(other) << "mine";
  ASSERT_TRUE(WriteFile(path_, "one").ok());
  EXPECT_EQ(Contents(other), "mine");
}

TEST_F(WriteFileTest, RefusesWhatIsNoRegularFile) {
  EXPECT_EQ(Refusal(folder_.path()), folder_.path() + ": is a folder; give the name of a file");
  EXPECT_EQ(Refusal("/dev/null"), "/dev/null: is not a regular file");
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(Refusal(path_), path_ + ": is not a regular file");
}

TEST_F(WriteFileTest, ALinkIsNeitherFollowedNorReplaced) {
  std::ofstream(folder_.File("target")) << "mine";
  std::filesystem::create_symlink("target", path_);
  EXPECT_NE(Refusal(path_).find("is a symbolic link"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(Contents(path_), "mine");
}

TEST_F(WriteFileTest, WhatIsReadIsNotWritten) {
  std::ofstream(folder_.File("trace")) << "mine";
  std::filesystem::create_hard_link(folder_.File("trace"), path_);
  const absl::Status status = CheckOutput(path_, {folder_.File("none"), folder_.File("trace")});
  EXPECT_EQ(status.message(), path_ + ": is read from, too; give another name");
  EXPECT_TRUE(CheckOutput(path_, {folder_.File("none")}).ok());
}

TEST_F(WriteFileTest, AFolderThatIsMissingIsNamed) {
  const absl::Status status = WriteFile(path_ + "/x", "text");
  EXPECT_EQ(status.message().substr(0, path_.size() + 3), path_ + "/x:");
}

}  // namespace
}  // namespace spin::cli

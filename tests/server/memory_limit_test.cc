// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/memory_limit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/server/temp_folder.h"

namespace spin::server {
namespace {

class MemoryLimitTest : public ::testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = folder_.File(file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  std::optional<uint64_t> Limit() const {
    return MemoryLimit(folder_.path(), folder_.File("membership"));
  }
  TempFolder folder_;
};

TEST_F(MemoryLimitTest, IsThatOfTheMountInAContainer) {
  Write("membership", "0::/");
  Write("memory.max", "1048576");
  EXPECT_EQ(Limit(), 1048576u);
}

TEST_F(MemoryLimitTest, IsThatOfTheProcesssOwnGroupElsewhere) {
  Write("membership", "0::/a/b:c");
  Write("a/b:c/memory.max", "2097152");
  EXPECT_EQ(Limit(), 2097152u);
}

TEST_F(MemoryLimitTest, OfVersionOneIsFoundToo) {
  Write("membership", "9:name=systemd:/x\n4:memory:/a");
  Write("memory/memory.limit_in_bytes", "9223372036854771712");
  Write("memory/a/memory.limit_in_bytes", "4194304");
  EXPECT_EQ(Limit(), 4194304u);
}

TEST_F(MemoryLimitTest, IsNothingWhereThereIsNone) {
  EXPECT_EQ(Limit(), std::nullopt);
  Write("membership", "0::/");
  Write("memory.max", "max");
  EXPECT_EQ(Limit(), std::nullopt);
}

}  // namespace
}  // namespace spin::server

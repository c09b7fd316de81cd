// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/spind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "tests/server/temp_folder.h"

namespace spin::server {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class SpindTest : public ::testing::Test {
 protected:
  Config SmallConfig() {
    Config config;
    config.socket = folder_.File("s");
    config.shm_dir = folder_.path();
    config.slab_bytes = 1 << 20;
    config.admin_address = "127.0.0.1:0";
    config.allow_uids = {getuid()};
    return config;
  }
  std::string StartError(const Config& config) {
    const auto spind = Spind::Start(config);
    return std::string(spind.status().message());
  }
  TempFolder folder_;
};

TEST_F(SpindTest, TheSocketsModeDoesNotDependOnTheUmask) {
  for (mode_t mask : {mode_t{0}, mode_t{022}, mode_t{077}}) {
    const mode_t before = umask(mask);
    const auto spind = Spind::Start(SmallConfig());
    umask(before);
    ASSERT_TRUE(spind.ok()) << spind.status();
    struct stat info = {};
    ASSERT_EQ(stat(folder_.File("s").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, mode_t{0660});
  }
}

TEST_F(SpindTest, LeavesNothingBehindButTheLock) {
  ASSERT_TRUE(Spind::Start(SmallConfig()).ok());
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    left.push_back(entry.path().filename());
  }
  EXPECT_THAT(left, ::testing::ElementsAre("s.lock"));
}

TEST_F(SpindTest, ATakenAdminPortIsExplained) {
  const auto first = Spind::Start(SmallConfig());
  ASSERT_TRUE(first.ok());
  Config second = SmallConfig();
  second.socket = folder_.File("s2");
  second.admin_address = (*first)->admin_address();
  EXPECT_THAT(StartError(second), HasSubstr("--admin-address: cannot listen on 127.0.0.1:"));
}

TEST_F(SpindTest, ABadAdminAddressIsExplained) {
  Config config = SmallConfig();
  for (const char* bad : {"nonsense", "0.0.0.0", "nonsense:port", "127.0.0.1:99999", "127.0.0.1:-1",
                          "127.0.0.1:", "127.0.0.1:0s", "127.0.0.1: 0", ":0", "9464", "::1:0",
                          "[::1:0", "[]:0", "127.0.0.1:0,127.0.0.1:0", "[::1]:0,[::1]:0", ""}) {
    config.admin_address = bad;
    EXPECT_THAT(StartError(config),
                HasSubstr(absl::StrCat("--admin-address: \"", bad, "\" is not HOST:PORT")));
  }
  config.admin_address = "256.1.1.1:0";
  EXPECT_THAT(StartError(config), HasSubstr("choose an address of this machine"));
}

// Whether there is IPv6 depends on how the library was built.
TEST_F(SpindTest, AnAdminAddressOfIPv6IsServedOrExplained) {
  Config config = SmallConfig();
  config.admin_address = "[::1]:0";
  const auto spind = Spind::Start(config);
  if (!spind.ok()) {
    EXPECT_THAT(std::string(spind.status().message()),
                AnyOf(HasSubstr("is of IPv6"), HasSubstr("choose an address of this machine")));
  }
}

TEST_F(SpindTest, AnUnknownDeviceIsExplained) {
  Config config = SmallConfig();
  config.device = "tpu";
  EXPECT_THAT(StartError(config), HasSubstr("--device: tpu"));
}

}  // namespace
}  // namespace spin::server

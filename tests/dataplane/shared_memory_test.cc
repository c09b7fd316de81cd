// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/shared_memory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

namespace spin::dataplane {
namespace {

class SharedMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/spin-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { EXPECT_EQ(rmdir(directory_.c_str()), 0) << "a file is left"; }

  std::string Path(const std::string& name = "slab") const { return directory_ + "/" + name; }

  static bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

  static SharedMemory Make(const std::string& path, size_t bytes = 4096) {
    return std::move(SharedMemory::Create(path, bytes)).value();
  }

  std::string directory_;
};

// Sets the umask of the process for its own lifetime.
class ScopedUmask {
 public:
  explicit ScopedUmask(mode_t mask) : before_(umask(mask)) {}
  ~ScopedUmask() { umask(before_); }

 private:
  mode_t before_;
};

TEST_F(SharedMemoryTest, BothSidesSeeTheSameBytes) {
  const SharedMemory created = Make(Path(), 10000);
  const absl::StatusOr<SharedMemory> opened = SharedMemory::Open(Path(), 10000);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->size(), 10000);
  std::memcpy(created.data() + 9995, "hello", 5);
  EXPECT_EQ(std::memcmp(opened->data() + 9995, "hello", 5), 0);
  std::memcpy(opened->data(), "world", 5);
  EXPECT_EQ(std::memcmp(created.data(), "world", 5), 0);
}

TEST_F(SharedMemoryTest, FreshMemoryIsZeroAndReserved) {
  const SharedMemory memory = Make(Path(), 1 << 20);
  struct stat info = {};
  ASSERT_EQ(stat(Path().c_str(), &info), 0);
  EXPECT_GE(info.st_blocks * 512, 1 << 20);
  for (size_t i = 0; i < memory.size(); ++i) ASSERT_EQ(memory.data()[i], std::byte{0});
}

TEST_F(SharedMemoryTest, ModeIs0660WhateverTheUmask) {
  for (const mode_t mask : {022, 077}) {
    const ScopedUmask scoped(mask);
    const SharedMemory memory = Make(Path());
    struct stat info = {};
    ASSERT_EQ(stat(Path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0660);
  }
}

TEST_F(SharedMemoryTest, FileGoesWithItsCreator) {
  {
    const SharedMemory memory = Make(Path());
    EXPECT_TRUE(Exists(Path()));
  }
  EXPECT_FALSE(Exists(Path()));
}

TEST_F(SharedMemoryTest, FileOutlivesWhoOpenedIt) {
  const SharedMemory created = Make(Path());
  { const absl::StatusOr<SharedMemory> opened = SharedMemory::Open(Path(), 4096); }
  EXPECT_TRUE(Exists(Path()));
}

TEST_F(SharedMemoryTest, MappingOutlivesTheFile) {
  absl::StatusOr<SharedMemory> created = SharedMemory::Create(Path(), 4096);
  ASSERT_TRUE(created.ok()) << created.status();
  const SharedMemory opened = std::move(SharedMemory::Open(Path(), 4096)).value();
  created = absl::UnavailableError("the creator is gone");
  ASSERT_FALSE(Exists(Path()));
  opened.data()[5] = std::byte{1};
  EXPECT_EQ(opened.data()[5], std::byte{1});
}

TEST_F(SharedMemoryTest, MovingKeepsTheFile) {
  SharedMemory first = Make(Path());
  {
    const SharedMemory second = std::move(first);
    EXPECT_TRUE(Exists(Path()));
    EXPECT_EQ(second.path(), Path());
  }
  EXPECT_FALSE(Exists(Path()));
}

TEST_F(SharedMemoryTest, ShorterFileIsRefused) {
  const SharedMemory memory = Make(Path(), 4096);
  EXPECT_EQ(SharedMemory::Open(Path(), 4097).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SharedMemoryTest, MissingFileIsNotFound) {
  EXPECT_EQ(SharedMemory::Open(Path(), 4096).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SharedMemoryTest, ExistingFileIsNotTakenOver) {
  const SharedMemory memory = Make(Path());
  memory.data()[0] = std::byte{7};
  EXPECT_EQ(SharedMemory::Create(Path(), 4096).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(memory.data()[0], std::byte{7});
  EXPECT_TRUE(Exists(Path()));
}

TEST_F(SharedMemoryTest, WithoutRoomTheErrorNamesTheFlag) {
  struct statvfs info = {};
  ASSERT_EQ(statvfs(directory_.c_str(), &info), 0);
  if (info.f_blocks == 0) GTEST_SKIP() << "/dev/shm has no limit here";
  const size_t too_much = info.f_blocks * info.f_frsize + (1 << 20);
  const absl::Status status = SharedMemory::Create(Path(), too_much).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("--slab-bytes"), absl::string_view::npos) << status;
  EXPECT_FALSE(Exists(Path()));
}

TEST_F(SharedMemoryTest, FileSystemsOfMemoryAreKnown) {
  EXPECT_TRUE(IsInMemory(directory_));
  EXPECT_FALSE(IsInMemory("/proc"));
  EXPECT_TRUE(IsInMemory(Path("missing")));
}

TEST_F(SharedMemoryTest, AbandonedFilesAreRemovedAndLivingOnesAreNot) {
  const SharedMemory living = Make(Path("spin-living"));
  std::ofstream(Path("spin-dead")) << "left behind";
  std::ofstream(Path("other")) << "of another program";
  EXPECT_EQ(RemoveAbandoned(directory_, "spin-"), 1);
  EXPECT_TRUE(Exists(Path("spin-living")));
  EXPECT_FALSE(Exists(Path("spin-dead")));
  EXPECT_TRUE(Exists(Path("other")));
  unlink(Path("other").c_str());
}

TEST_F(SharedMemoryTest, FileOfAKilledCreatorIsAbandoned) {
  const pid_t child = fork();
  if (child == 0) {
    const absl::StatusOr<SharedMemory> memory = SharedMemory::Create(Path(), 4096);
    _exit(memory.ok() ? 0 : 1);  // without its destructor
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(Exists(Path()));
  EXPECT_EQ(RemoveAbandoned(directory_, "slab"), 1);
  EXPECT_FALSE(Exists(Path()));
}

TEST_F(SharedMemoryTest, MissingDirectoryHoldsNothingAbandoned) {
  EXPECT_EQ(RemoveAbandoned(Path("none"), "spin-"), 0);
}

}  // namespace
}  // namespace spin::dataplane

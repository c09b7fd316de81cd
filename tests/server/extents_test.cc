// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/extents.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace spin::server {
namespace {

TEST(ExtentAllocatorTest, RoundsUpToTheAlignment) {
  ExtentAllocator extents(256, 256 + 4096);
  const auto extent = extents.Allocate(1);
  ASSERT_TRUE(extent.has_value());
  EXPECT_EQ(extent->offset(), 256u);
  EXPECT_EQ(extent->bytes(), 256u);
  EXPECT_EQ(extents.used(), 256u);
}

TEST(ExtentAllocatorTest, RefusesWhatDoesNotFit) {
  ExtentAllocator extents(0, 1024);
  EXPECT_FALSE(extents.Allocate(1025).has_value());
  EXPECT_FALSE(extents.Allocate(0).has_value());
  EXPECT_FALSE(extents.Allocate(UINT64_MAX).has_value());
  EXPECT_TRUE(extents.Allocate(1024).has_value());
}

TEST(ExtentAllocatorTest, GivesBackWhenDestroyed) {
  ExtentAllocator extents(0, 1024);
  {
    const auto all = extents.Allocate(1024);
    EXPECT_FALSE(extents.Allocate(256).has_value());
  }
  EXPECT_EQ(extents.used(), 0u);
  EXPECT_TRUE(extents.Allocate(1024).has_value());
}

TEST(ExtentAllocatorTest, MovingKeepsOneOwner) {
  ExtentAllocator extents(0, 1024);
  Extent kept;
  {
    auto extent = extents.Allocate(512);
    kept = *std::move(extent);
  }
  EXPECT_EQ(extents.used(), 512u);
  kept = Extent();
  EXPECT_EQ(extents.used(), 0u);
}

TEST(ExtentAllocatorTest, NeighboursMergeInAnyOrderOfFreeing) {
  std::mt19937_64 random(7);
  ExtentAllocator extents(0, 64 * 256);
  for (int round = 0; round < 200; ++round) {
    std::vector<Extent> held;
    while (auto extent = extents.Allocate(256 * (1 + random() % 5)))
      held.push_back(*std::move(extent));
    std::shuffle(held.begin(), held.end(), random);
    held.clear();
    ASSERT_TRUE(extents.Allocate(64 * 256).has_value()) << "round " << round;
  }
}

TEST(ExtentAllocatorTest, PiecesNeverOverlap) {
  std::mt19937_64 random(11);
  ExtentAllocator extents(256, 256 + 256 * 256);
  std::vector<Extent> held;
  for (int step = 0; step < 2000; ++step) {
    if (random() % 2 == 0) {
      if (auto extent = extents.Allocate(1 + random() % 4000)) held.push_back(*std::move(extent));
    } else if (!held.empty()) {
      held.erase(held.begin() + static_cast<int64_t>(random() % held.size()));
    }
    std::vector<int> owners(257, 0);
    for (const Extent& extent : held) {
      for (uint64_t at = extent.offset(); at < extent.offset() + extent.bytes(); at += 256) {
        ASSERT_EQ(++owners[at / 256], 1);
      }
    }
  }
}

}  // namespace
}  // namespace spin::server

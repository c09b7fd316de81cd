// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/exploration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace spin::kernels {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kSeed = 0x123456789abcdef0;
constexpr uint64_t kKeyHash = 0x71d980b2304d63e8;  // of "chat-17"

std::vector<uint32_t> Keys(const ExplorationDraw& draw) {
  std::vector<uint32_t> keys;
  for (int32_t lane = 0; lane < kBlocksPerDraw; ++lane) keys.push_back(draw.Key(lane));
  return keys;
}

// Expected values: Philox4x32-10 written anew in Python. Tensor-parallel ranks of other versions of
// Spin and replays of old traces rely on them.
TEST(ExplorationTest, KeysAreTheTop11BitsOfPhiloxHalfWords) {
  EXPECT_THAT(Keys(DrawBlocks(0, 0, 0, 0, 0)),
              ElementsAre(1862, 817, 1580, 1803, 1378, 1506, 1758, 1240));
  EXPECT_THAT(Keys(DrawBlocks(kSeed, kKeyHash, 131071, 20, 255)),
              ElementsAre(1583, 1802, 1120, 1802, 1009, 474, 302, 1779));
}

TEST(ExplorationTest, KeysFillTheirRangeEvenly) {
  constexpr int kDraws = 20000;
  std::vector<int> quarter(4);
  for (int32_t group = 0; group < kDraws; ++group) {
    for (const uint32_t key : Keys(DrawBlocks(kSeed, kKeyHash, 5, 1, group))) {
      ASSERT_LT(key, 1u << kExplorationKeyBits);
      ++quarter[key >> (kExplorationKeyBits - 2)];
    }
  }
  for (const int count : quarter) EXPECT_NEAR(count, kDraws * kBlocksPerDraw / 4, 1000);
}

TEST(ExplorationTest, EveryInputChangesTheDraw) {
  const std::vector<uint32_t> keys = Keys(DrawBlocks(kSeed, kKeyHash, 5, 1, 3));
  EXPECT_NE(keys, Keys(DrawBlocks(kSeed + 1, kKeyHash, 5, 1, 3)));
  EXPECT_NE(keys, Keys(DrawBlocks(kSeed + (uint64_t{1} << 40), kKeyHash, 5, 1, 3)));
  EXPECT_NE(keys, Keys(DrawBlocks(kSeed, kKeyHash + 1, 5, 1, 3)));
  EXPECT_NE(keys, Keys(DrawBlocks(kSeed, kKeyHash + (uint64_t{1} << 40), 5, 1, 3)));
  EXPECT_NE(keys, Keys(DrawBlocks(kSeed, kKeyHash, 6, 1, 3)));
  EXPECT_NE(keys, Keys(DrawBlocks(kSeed, kKeyHash, 5, 2, 3)));
  EXPECT_NE(keys, Keys(DrawBlocks(kSeed, kKeyHash, 5, 1, 4)));
}

TEST(ExplorationTest, AuditsArePartOfTheContract) {
  std::vector<int> due;
  for (int position = 0; position < 500; ++position) {
    if (AuditDue(kSeed, kKeyHash, position, 64)) due.push_back(position);
  }
  EXPECT_THAT(due, ElementsAre(61, 134, 220, 297, 331, 340, 416));
}

TEST(ExplorationTest, AuditEveryOneIsAlwaysAndZeroIsNever) {
  for (int position = 0; position < 1000; ++position) {
    ASSERT_TRUE(AuditDue(kSeed, kKeyHash, position, 1));
    ASSERT_FALSE(AuditDue(kSeed, kKeyHash, position, 0));
  }
}

TEST(ExplorationTest, OneStepInAuditEveryIsAudited) {
  int due = 0;
  for (int position = 0; position < 65536; ++position) {
    due += AuditDue(kSeed, kKeyHash, position, 64);
  }
  EXPECT_EQ(due, 1029);  // 1024 expected, standard deviation 32
}

}  // namespace
}  // namespace spin::kernels

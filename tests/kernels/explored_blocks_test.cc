// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "tests/kernels/reference.h"
#include "tests/kernels/test_session.h"

// Which blocks Select draws at random.
namespace spin::kernels {
namespace {

class ExploredBlocksTest : public DeviceTest {
 protected:
  static constexpr Geometry kGeometry = {2, 16, 16, 1, Dtype::kF32};
  static constexpr int64_t kPosition = 1599;  // 100 blocks, of which 60 are kept
  static constexpr uint64_t kKeyHash = 0x71d980b2304d63e8;

  static Policy Exploring(double share) {
    Policy policy = Skip(0.4);
    policy.exploration = share;
    policy.seed = 42;
    return policy;
  }

  // Falling with the block: without exploration the first blocks are kept.
  static std::vector<float> Scores(int32_t blocks = 100) {
    std::vector<float> scores;
    for (int32_t block = 0; block < blocks; ++block) scores.push_back(-static_cast<float>(block));
    return scores;
  }

  // The kept blocks that neither prediction nor pinning chose.
  static std::vector<int32_t> Explored(const StoredList& list) {
    std::vector<int32_t> out;
    for (const int32_t block : list.blocks) {
      if (block >= list.header.predicted && block != list.header.blocks - 1) out.push_back(block);
    }
    return out;
  }

  std::vector<int32_t> ExploredAt(int64_t position, uint64_t key_hash, const Policy& policy) {
    TestSession session(device_, {.geometry = kGeometry, .max_slots = 4096});
    session.Open(0, 100, key_hash);
    return Explored(session.SelectFrom(Scores(256), RowAt(position), policy));
  }
};
SPIN_TEST_ON_EVERY_DEVICE(ExploredBlocksTest);

TEST_P(ExploredBlocksTest, AreAShareOfTheBudget) {
  EXPECT_EQ(ExploredAt(kPosition, kKeyHash, Exploring(0)).size(), 0);
  EXPECT_EQ(ExploredAt(kPosition, kKeyHash, Exploring(0.05)).size(), 3);
  EXPECT_EQ(ExploredAt(kPosition, kKeyHash, Exploring(0.49)).size(), 29);
}

TEST_P(ExploredBlocksTest, FillTheBudgetUpToThePinned) {
  EXPECT_EQ(ExploredAt(kPosition, kKeyHash, Exploring(1)).size(), 59);
}

TEST_P(ExploredBlocksTest, AreThoseLeftWithTheSmallestKeys) {
  const Policy policy = Exploring(0.1);
  const auto key = [&](int32_t block) {
    return DrawBlocks(policy.seed, kKeyHash, kPosition, 0, block / 8).Key(block % 8);
  };
  std::vector<int32_t> left;  // 53 blocks are predicted, block 99 is pinned
  for (int32_t block = 53; block < 99; ++block) left.push_back(block);
  std::sort(left.begin(), left.end(),
            [&](int32_t a, int32_t b) { return std::pair(key(a), a) < std::pair(key(b), b); });
  const std::vector<int32_t> smallest(left.begin(), left.begin() + 6);
  EXPECT_THAT(ExploredAt(kPosition, kKeyHash, policy),
              ::testing::UnorderedElementsAreArray(smallest));
}

TEST_P(ExploredBlocksTest, TiesOfTheKeysGoToTheLowerBlock) {
  // So many blocks that the keys, of 11 bits, must repeat.
  TestSession session(device_, {.geometry = kGeometry, .max_slots = 1 << 18});
  session.Open(0, 100, kKeyHash);
  const Row row = RowAt((1 << 18) - 1);
  const std::vector<float> scores = Scores(16384);
  EXPECT_EQ(
      session.SelectFrom(scores, row, Exploring(0.5)).blocks,
      reference::Select(scores, {kKeyHash, 0, row.position, 1}, kGeometry, Exploring(0.5)).blocks);
}

TEST_P(ExploredBlocksTest, DependOnSeedKeyLayerAndPosition) {
  const Policy policy = Exploring(0.1);
  const std::vector<int32_t> drawn = ExploredAt(kPosition, kKeyHash, policy);
  EXPECT_EQ(ExploredAt(kPosition, kKeyHash, policy), drawn);
  EXPECT_NE(ExploredAt(kPosition - 1, kKeyHash, policy), drawn);
  EXPECT_NE(ExploredAt(kPosition, kKeyHash + 1, policy), drawn);
  Policy reseeded = policy;
  reseeded.seed = 43;
  EXPECT_NE(ExploredAt(kPosition, kKeyHash, reseeded), drawn);
}

TEST_P(ExploredBlocksTest, DifferFromLayerToLayer) {
  TestSession session(device_, {.geometry = kGeometry, .max_slots = 4096});
  session.Open(0, 100, kKeyHash);
  for (const int32_t layer : {0, 1}) session.SetBlockScores(layer, 0, 1, Scores());
  session.Select({RowAt(kPosition)}, Exploring(0.1));
  EXPECT_NE(Explored(session.List(0, 0, 0)), Explored(session.List(0, 0, 1)));
}

TEST_P(ExploredBlocksTest, DependOnNothingOfTheSession) {
  const Policy policy = Exploring(0.1);
  TestSession session(device_, {.geometry = kGeometry, .max_requests = 3, .max_slots = 8192});
  session.Open(2, 100, kKeyHash);
  session.SetGeneration(2, 9);
  Row row = RowAt(kPosition);
  row.request = 2;
  row.buffer = 1;
  Row padding = row;
  padding.request = kPaddingRow;
  session.SetBlockScores(0, 1, 2, Scores());
  session.Select({padding, row}, policy, {0, 1});
  EXPECT_EQ(Explored(session.List(1, 2, 0)), ExploredAt(kPosition, kKeyHash, policy));
}

TEST_P(ExploredBlocksTest, ReachEveryBlockInTime) {
  TestSession session(device_, {.geometry = kGeometry, .max_slots = 4096});
  session.Open(0, 100, kKeyHash);
  std::set<int32_t> seen;
  for (int64_t position = kPosition - 15; position <= kPosition; ++position) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Policy policy = Exploring(0.1);
      policy.seed = seed;
      const auto explored = Explored(session.SelectFrom(Scores(), RowAt(position), policy));
      seen.insert(explored.begin(), explored.end());
    }
  }
  EXPECT_EQ(seen.size(), 99 - 53);  // all but the predicted and the pinned
}

}  // namespace
}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/budget.h"

#include <gtest/gtest.h>

#include "tests/kernels/reference.h"

namespace spin::kernels {
namespace {

// A row of `blocks` blocks, of which the last `tail` hold new slots; one verifier row and a top-K
// of 1.
struct Question {
  int32_t blocks = 100;
  int32_t tail = 1;
  int32_t next_n = 1;
  int32_t topk = 1;
  int32_t block = 64;
  double sparsity = 0;
  double exploration = 0;
  bool sink = false;
};

BlockBudget Ask(const Question& q) {
  const RowExtent extent = {int64_t{q.blocks} * q.block, q.blocks, q.tail};
  return BudgetOf(extent, q.next_n, q.topk, q.block, q.sparsity, q.exploration, q.sink);
}

TEST(BudgetTest, KeepsWhatIsNotSkipped) {
  EXPECT_EQ(Ask({.sparsity = 0.4}).keep, 60);
  EXPECT_EQ(Ask({.blocks = 101, .sparsity = 0.4}).keep, 61);
}

TEST(BudgetTest, SparsityZeroKeepsEveryBlock) { EXPECT_EQ(Ask({.sparsity = 0}).keep, 100); }

TEST(BudgetTest, SeventyPercentOf510Keeps153) {
  EXPECT_EQ(Ask({.blocks = 510, .sparsity = 0.7}).keep, 153);
}

TEST(BudgetTest, ProductJustBelowAnIntegerCountsAsTheInteger) {
  ASSERT_LT(0.29 * 100, 29);
  EXPECT_EQ(Ask({.sparsity = 0.29}).keep, 71);
}

TEST(BudgetTest, NeverFallsBelowTheBlocksOfTheTopk) {
  EXPECT_EQ(Ask({.topk = 512, .sparsity = 0.999}).keep, 8);
  EXPECT_EQ(Ask({.topk = 513, .sparsity = 0.999}).keep, 9);
}

TEST(BudgetTest, NeverFallsBelowThePinnedBlocks) {
  EXPECT_EQ(Ask({.tail = 5, .sparsity = 0.999}).keep, 5);
  EXPECT_EQ(Ask({.tail = 5, .sparsity = 0.999, .sink = true}).keep, 6);
}

TEST(BudgetTest, TopkBeyondTheContextKeepsEveryBlock) {
  EXPECT_EQ(Ask({.blocks = 3, .topk = 2048, .sparsity = 0.9}).keep, 3);
}

TEST(BudgetTest, SinkInTheTailIsPinnedOnce) {
  EXPECT_EQ(Ask({.blocks = 2, .tail = 2, .sink = true}).pinned, 2);
  EXPECT_EQ(Ask({.blocks = 2, .tail = 1, .sink = true}).pinned, 2);
}

TEST(BudgetTest, EmptyContextKeepsNothing) {
  const BlockBudget budget = Ask({.blocks = 0, .tail = 0, .exploration = 1, .sink = true});
  EXPECT_EQ(budget.keep, 0);
  EXPECT_EQ(budget.pinned, 0);
  EXPECT_EQ(budget.explored, 0);
}

TEST(BudgetTest, EachDraftAddsABlockPer256) {
  EXPECT_EQ(Ask({.blocks = 256, .next_n = 4, .sparsity = 0.5}).keep, 128 + 3);
  EXPECT_EQ(Ask({.blocks = 257, .next_n = 4, .sparsity = 0.5}).keep, 129 + 6);
}

TEST(BudgetTest, DraftsAddNoMoreThanThereIs) {
  EXPECT_EQ(Ask({.blocks = 5, .next_n = 8, .sparsity = 0.2}).keep, 5);
}

TEST(BudgetTest, ExploresAShareOfTheKept) {
  EXPECT_EQ(Ask({.sparsity = 0.4, .exploration = 0.05}).explored, 3);
  EXPECT_EQ(Ask({.sparsity = 0.41, .exploration = 0.05}).explored, 2);  // of 59
}

TEST(BudgetTest, ExplorationLeavesThePinnedAlone) {
  const BlockBudget budget = Ask({.tail = 4, .sparsity = 0.9, .exploration = 1});
  EXPECT_EQ(budget.keep, 10);
  EXPECT_EQ(budget.explored, 6);
}

TEST(BudgetTest, EqualsTheFormulaEverywhere) {
  for (int32_t blocks = 1; blocks <= 520; ++blocks) {
    for (const double rho : {0.0, 0.1, 0.29, 0.3, 0.5, 0.6, 0.7, 0.9, 0.999999999999}) {
      for (const int32_t topk : {1, 64, 65, 2048}) {
        for (const int32_t next_n : {1, 2, 8}) {
          const int32_t tail = std::min(blocks, 1 + next_n / 4);
          const Geometry g = {1, 64, topk, 1, Dtype::kF32};
          const BlockBudget budget = Ask({.blocks = blocks,
                                          .tail = tail,
                                          .next_n = next_n,
                                          .topk = topk,
                                          .sparsity = rho,
                                          .exploration = 0.05});
          const reference::Budget expected =
              reference::BudgetOf(blocks, tail, next_n, g, rho, 0.05);
          ASSERT_EQ(budget.keep, expected.keep) << blocks << " blocks at " << rho;
          ASSERT_EQ(budget.explored, expected.explored) << blocks << " blocks at " << rho;
        }
      }
    }
  }
}

}  // namespace
}  // namespace spin::kernels

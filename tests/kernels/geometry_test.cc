// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/geometry.h"

#include <gtest/gtest.h>

#include "kernels/state.h"
#include "tests/kernels/reference.h"

namespace spin::kernels {
namespace {

constexpr Geometry Shape(int32_t block, int32_t tokens_per_slot) {
  return {.layers = 1,
          .block = block,
          .topk = 64,
          .tokens_per_slot = tokens_per_slot,
          .state = Dtype::kF32};
}

TEST(GeometryTest, OneTokenSlotsAreVisibleToTheirOwnToken) {
  EXPECT_EQ(VisibleSlots(0, 1), 1);
  EXPECT_EQ(VisibleSlots(99, 1), 100);
  EXPECT_EQ(QuerySlot(99, 1), 99);
}

TEST(GeometryTest, SlotOfFourTokensIsVisibleFromItsLastToken) {
  EXPECT_EQ(VisibleSlots(2, 4), 0);
  EXPECT_EQ(VisibleSlots(3, 4), 1);
  EXPECT_EQ(VisibleSlots(6, 4), 1);
  EXPECT_EQ(QuerySlot(3, 4), 0);
  EXPECT_EQ(QuerySlot(4, 4), 1);
}

TEST(GeometryTest, BlockSizesAreTheFourDocumentedOnes) {
  std::vector<int32_t> sizes;
  for (int32_t size = -1; size <= 4096; ++size) {
    if (IsBlockSize(size)) sizes.push_back(size);
  }
  EXPECT_EQ(sizes, (std::vector<int32_t>{16, 32, 64, 128}));
}

TEST(GeometryTest, ExtentIsThatOfTheLastVerifierRow) {
  const RowExtent extent = ExtentOf(126, 3, Shape(64, 1));
  EXPECT_EQ(extent.slots, 129);
  EXPECT_EQ(extent.blocks, 3);
  EXPECT_EQ(extent.tail_blocks, 2);  // slots 126 and 127 lie in block 1
}

TEST(GeometryTest, ContextWithoutASlotHasNoBlocks) {
  const RowExtent extent = ExtentOf(0, 2, Shape(64, 4));
  EXPECT_EQ(extent.slots, 0);
  EXPECT_EQ(extent.blocks, 0);
  EXPECT_EQ(extent.tail_blocks, 0);
}

TEST(GeometryTest, TailBlocksAreThoseOfTheNewestSlots) {
  for (const int32_t block : {16, 32, 64, 128}) {
    for (const int32_t tokens_per_slot : {1, 4}) {
      const Geometry g = Shape(block, tokens_per_slot);
      for (int32_t next_n = 1; next_n <= kMaxNextN; ++next_n) {
        for (int64_t position = 0; position < 600; ++position) {
          const int64_t slots = reference::SlotsAt(position + next_n - 1, g);
          const RowExtent extent = ExtentOf(position, next_n, g);
          ASSERT_EQ(extent.blocks, reference::BlockCount(slots, g)) << slots;
          ASSERT_EQ(extent.tail_blocks, reference::PinnedBlocks(slots, next_n, g, false).size())
              << slots << " slots, next_n " << next_n << ", block " << block;
        }
      }
    }
  }
}

TEST(GeometryTest, LargestRequestFitsItsRecord) {
  EXPECT_EQ(PagesFor(kMaxSlots), kMaxPages);
  EXPECT_EQ(PagesFor(kPageSlots), 1);
  EXPECT_EQ(PagesFor(kPageSlots + 1), 2);
  EXPECT_EQ(PagesFor(0), 0);
}

TEST(GeometryTest, PageHoldsVThenReversedDOfEachLayer) {
  Geometry g = Shape(32, 1);
  g.layers = 3;
  g.state = Dtype::kBF16;
  EXPECT_EQ(PageBytes(g), 3 * 2 * 4096 * 2);
  EXPECT_EQ(VOffset(g, 0, 4096 + 5), 5 * 2);
  EXPECT_EQ(DOffset(g, 0, 4096 + 5), (4096 + 4095 - 5) * 2);
  EXPECT_EQ(VOffset(g, 2, 0), 2 * 2 * 4096 * 2);
  g.state = Dtype::kF32;
  EXPECT_EQ(DOffset(g, 2, 0), (2 * 2 * 4096 + 4096 + 4095) * 4);
}

TEST(GeometryTest, SummariesFollowTheAveragesOfTheirLayer) {
  Geometry g = Shape(64, 1);
  g.layers = 3;
  g.state = Dtype::kF32;
  EXPECT_FALSE(HasSummary(g));
  g.state = Dtype::kBF16;
  ASSERT_TRUE(HasSummary(g));
  EXPECT_EQ(SummaryOffset(g, 0), 2 * 4096 * 2);
  EXPECT_EQ(VOffset(g, 1, 0), 2 * 4096 * 2 + 512);
  EXPECT_EQ(PageBytes(g), 3 * (2 * 4096 * 2 + 512));
}

TEST(GeometryTest, SummaryServesTheSameQueryAndTheNext) {
  const Geometry g = Shape(64, 1);
  const RowExtent extent = ExtentOf(200, 1, g);  // 201 slots in 4 blocks, the last is the tail
  EXPECT_TRUE(SummaryServes(200, 201, 200, extent));
  EXPECT_TRUE(SummaryServes(199, 200, 200, extent));
  EXPECT_FALSE(SummaryServes(198, 199, 200, extent));
  EXPECT_FALSE(SummaryServes(201, 202, 200, extent));
  EXPECT_TRUE(SummaryServes(199, 192, 200, extent));
  EXPECT_FALSE(SummaryServes(199, 191, 200, extent));  // has not seen a free block to its end
}

TEST(GeometryTest, SummaryOfAFreshPageServesNobody) {
  const RowExtent extent = ExtentOf(64, 1, Shape(64, 1));  // one free block
  const auto cold = static_cast<int64_t>(0xff80ff80ff80ff80u);
  EXPECT_FALSE(SummaryServes(cold, cold, 64, extent));
  EXPECT_FALSE(SummaryServes(0, 0, 0, extent));
}

}  // namespace
}  // namespace spin::kernels

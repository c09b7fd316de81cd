// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/session_view.h"

#include <gtest/gtest.h>

namespace spin::dataplane {
namespace {

using kernels::Dtype;

constexpr SessionShape kShape = {
    .geometry = {.layers = 2, .block = 64, .topk = 512, .tokens_per_slot = 1, .state = Dtype::kF32},
    .max_slots = 1000,
    .max_requests = 3,
    .max_next_n = 4,
    .scores = Dtype::kBF16,
    .staging = true};

class SessionViewTest : public ::testing::Test {
 protected:
  template <typename T>
  uint64_t OffsetOf(T* pointer) const {
    return reinterpret_cast<std::byte*>(pointer) - slab_;
  }

  std::byte* const slab_ = reinterpret_cast<std::byte*>(uint64_t{1} << 32);  // never touched
  const SessionLayout layout_ = LayoutAt(512, kShape);
  const SessionView view_ = ViewOf(slab_, 77, kShape, layout_);
};

TEST_F(SessionViewTest, ArraysLieWhereTheLayoutSays) {
  EXPECT_EQ(OffsetOf(view_.records), layout_.records);
  EXPECT_EQ(OffsetOf(view_.counters), layout_.counters);
  EXPECT_EQ(OffsetOf(view_.audits), layout_.audits);
  EXPECT_EQ(OffsetOf(view_.timeline), layout_.timeline);
  EXPECT_EQ(OffsetOf(view_.lists.headers), layout_.headers);
  EXPECT_EQ(OffsetOf(view_.lists.blocks), layout_.lists);
  EXPECT_EQ(OffsetOf(view_.staging), layout_.staging);
  EXPECT_EQ(view_.state().slab, slab_);
  EXPECT_EQ(view_.state().records, view_.records);
}

TEST_F(SessionViewTest, LastListEndsWhereTheMasksBeginAndTheyWhereTheStagingAreaBegins) {
  const kernels::ListTable& lists = view_.lists;
  EXPECT_EQ(lists.max_blocks, 16);
  EXPECT_EQ(lists.Header(1, 2, 1) - lists.headers, 2 * 3 * 2 - 1);
  const uint64_t lists_end = OffsetOf(lists.Blocks(1, 2, 1)) + 16 * sizeof(int32_t);
  EXPECT_LE(lists_end, layout_.masks);
  EXPECT_GT(lists_end + 256, layout_.masks);
  const uint64_t masks_end = OffsetOf(lists.Masks(1, 2, 1)) + sizeof(kernels::ListMask);
  EXPECT_LE(masks_end, layout_.staging);
  EXPECT_GT(masks_end + 256, layout_.staging);
}

TEST_F(SessionViewTest, StagedRowsFollowOneAnother) {
  constexpr uint64_t kRowBytes = 1024 * 2;
  EXPECT_EQ(OffsetOf(view_.StagedRow(0, 0, 0)), layout_.staging);
  EXPECT_EQ(OffsetOf(view_.StagedRow(0, 0, 1)), layout_.staging + kRowBytes);
  EXPECT_EQ(OffsetOf(view_.StagedRow(0, 1, 0)), layout_.staging + 4 * kRowBytes);
  EXPECT_EQ(OffsetOf(view_.StagedRow(1, 0, 0)), layout_.staging + 3 * 4 * kRowBytes);
  EXPECT_EQ(OffsetOf(view_.StagedRow(1, 2, 3)) + kRowBytes, layout_.end);
}

TEST_F(SessionViewTest, StagedScoresHaveTheStridesOfStagedRows) {
  const kernels::ScoreView scores = view_.staged_scores();
  EXPECT_EQ(scores.data, view_.staging);
  EXPECT_EQ(scores.dtype, Dtype::kBF16);
  EXPECT_EQ(scores.draft_stride, 1024);
  EXPECT_EQ(scores.row_stride, 4 * 1024);
  EXPECT_EQ(scores.layer_stride, 3 * 4 * 1024);
}

TEST_F(SessionViewTest, StampNamesEpochGenerationAndStep) {
  EXPECT_TRUE(kernels::SameStamp(view_.StampFor(5, 123, 2), {77, 5, 2, 123}));
}

TEST_F(SessionViewTest, WithoutStagingThereIsNone) {
  SessionShape shape = kShape;
  shape.staging = false;
  EXPECT_EQ(ViewOf(slab_, 77, shape, LayoutAt(512, shape)).staging, nullptr);
}

}  // namespace
}  // namespace spin::dataplane

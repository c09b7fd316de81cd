// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/judge.h"

#include <gtest/gtest.h>

#include <vector>

#include "trace/topk.h"

namespace spin::cli {
namespace {

constexpr int kBlock = 16, kSlots = 40, kTopk = 4;

// One layer, one head of one dimension: slot i scores i, and the last slots are the best.
trace::Trace Ramp() {
  trace::Trace trace;
  trace.layers = 1;
  trace.slots = kSlots;
  trace.steps = 2;
  trace.heads = 1;
  trace.dim = 1;
  trace.first_query = kSlots - 2;
  trace.layer_numbers = {7};
  trace.k.assign(kSlots, 0x38);  // 1.0
  for (int i = 0; i < kSlots; ++i) trace.k_scale.push_back(static_cast<float>(i));
  trace.q.assign(2, 0x38);
  trace.w.assign(2, 1.0f);
  return trace;
}

class JudgeTest : public ::testing::Test {
 protected:
  JudgeTest() : scorer_(Ramp()), judge_(&scorer_, 2, kTopk, kBlock) {}

  // What an engine that scores these blocks of step 1 would hand in.
  Verdict CheckBlocks(const std::vector<int32_t>& blocks) {
    scores_.resize(blocks.size() * kBlock);
    scores_.resize(scorer_.ScoreBlocks(0, 1, blocks, kBlock, scores_.data()));
    top_.resize(kTopk);
    std::vector<int32_t> workspace(scores_.size());
    top_.resize(trace::TopK(scores_, kTopk, absl::MakeSpan(workspace), absl::MakeSpan(top_)));
    for (int32_t& c : top_) c = blocks[c / kBlock] * kBlock + c % kBlock;
    return judge_.Check(0, 1, {blocks, scores_, top_});
  }

  trace::Scorer scorer_;
  Judge judge_;
  std::vector<float> scores_;
  std::vector<int32_t> top_;
};

TEST_F(JudgeTest, AllBlocksMissNothing) {
  const Verdict verdict = CheckBlocks({0, 1, 2});
  EXPECT_EQ(verdict.considered_blocks, 3);
  EXPECT_EQ(verdict.kept_blocks, 3);
  EXPECT_EQ(verdict.kept_slots, kSlots);
  EXPECT_EQ(verdict.truth, kTopk);
  EXPECT_EQ(verdict.missed, 0);
  EXPECT_EQ(verdict.found, kTopk);
  EXPECT_TRUE(verdict.exact);
}

TEST_F(JudgeTest, SlotsOfBlocksThatWereNotKeptAreMissed) {
  const Verdict verdict = CheckBlocks({0, 1});  // the best four are slots 36 to 39, in block 2
  EXPECT_EQ(verdict.missed, kTopk);
  EXPECT_EQ(verdict.found, 0);
  EXPECT_TRUE(verdict.exact);                // what was scored is right
  EXPECT_EQ(CheckBlocks({1, 2}).missed, 0);  // and nothing stays marked
}

TEST_F(JudgeTest, OneWrongBitIsNotExact) {
  CheckBlocks({0, 2});
  scores_[3] += 1e-6f;
  const std::vector<int32_t> blocks = {0, 2};
  EXPECT_FALSE(judge_.Check(0, 1, {blocks, scores_, top_}).exact);
}

}  // namespace
}  // namespace spin::cli

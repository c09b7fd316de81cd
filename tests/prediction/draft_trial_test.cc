// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/draft_trial.h"

#include <gtest/gtest.h>

#include "prediction/trial.h"
#include "tests/prediction/brute_force.h"
#include "tests/prediction/smooth_trace.h"

namespace spin::prediction {
namespace {

constexpr int kTopk = 24;
constexpr int kBlock = 16;
constexpr float kAlpha = 0.5f;

kernels::Policy HalfOfAll() {
  kernels::Policy policy = {};
  std::fill(std::begin(policy.sparsity), std::end(policy.sparsity), 0.5);
  policy.decay = kAlpha;
  return policy;
}

MissSummary Play(const trace::Trace& trace, DraftOptions options) {
  options.geometry = {trace.layers, kBlock, kTopk, 1, kernels::Dtype::kF32};
  options.max_slots = trace.Context(trace.steps - 1);
  options.policy = HalfOfAll();
  DraftTrial trial(options);
  const trace::Scorer scorer(trace);
  LayerVisitor* const visitors[] = {&trial};
  EXPECT_TRUE(Walk({&scorer, nullptr, trace.steps, kTopk, kBlock}, visitors,
                   {options.drafts + 1, 2, nullptr})
                  .ok());
  return trial.Read();
}

// One layer, all drafts accepted or none.
class Rounds {
 public:
  Rounds(const trace::Trace& trace, int drafts, int accepted, bool exact_union, int observed)
      : reference_(trace, kTopk, kBlock), v_(trace.slots, kUnseen), d_(v_) {
    Observe(0, std::vector<bool>(reference_.Blocks(trace.Context(0)), true));
    double missed = 0;
    int rows = 0, kept_blocks = 0, considered = 0;
    for (int first = 1; first + drafts < trace.steps; first += accepted) {
      const int last = trace.Context(first + drafts);
      std::vector<bool> kept(reference_.Blocks(last), false);
      std::vector<float> worth(kept.size(), kUnseen);
      for (int row = 0; row <= drafts; ++row) {
        const int slots = trace.Context(first + row);
        const std::vector<float> of_row = reference_.Pool(Signal(slots));
        for (size_t j = 0; j < of_row.size(); ++j) worth[j] = std::max(worth[j], of_row[j]);
        const auto own = reference_.Choose(of_row, reference_.Keep(slots, 0.5));
        for (size_t j = 0; exact_union && j < own.size(); ++j) kept[j] = kept[j] || own[j];
      }
      if (!exact_union) kept = Shared(worth, last, drafts);
      kept_blocks += static_cast<int>(std::count(kept.begin(), kept.end(), true));
      considered += static_cast<int>(kept.size());
      for (int row = 0; row < accepted; ++row, ++rows) {
        missed += reference_.CountMissed(0, first + row, kept);
      }
      for (int row = 0; row < observed; ++row) Observe(first + row, kept);
    }
    mean = missed / rows / kTopk;
    sparsity = 1 - static_cast<double>(kept_blocks) / considered;
  }

  double mean, sparsity;

 private:
  static constexpr float kUnseen = BruteForce::kUnseen;

  std::vector<float> Signal(int slots) const {
    std::vector<float> signal(slots);
    for (int i = 0; i < slots; ++i) signal[i] = std::max(v_[i], d_[slots - 1 - i]);
    return signal;
  }

  // Tail blocks, then the best by the maximum over the rows.
  std::vector<bool> Shared(std::vector<float> worth, int slots, int drafts) const {
    const int blocks = static_cast<int>(worth.size());
    const int keep =
        std::min(blocks, reference_.Keep(slots, 0.5) + drafts * ((blocks + 255) / 256));
    for (int j = (slots - drafts - 1) / kBlock; j < blocks; ++j) {
      worth[j] = std::numeric_limits<float>::max();
    }
    return reference_.Choose(worth, keep);
  }

  void Observe(int step, const std::vector<bool>& kept) {
    const std::vector<float>& scores = reference_.scores(0, step);
    const int query = static_cast<int>(scores.size()) - 1;
    for (int i = 0; i <= query; ++i) {
      if (!kept[i / kBlock]) continue;
      for (float* average : {&v_[i], &d_[query - i]}) {
        *average = *average == kUnseen ? scores[i] : kAlpha * *average + (1 - kAlpha) * scores[i];
      }
    }
  }

  BruteForce reference_;
  std::vector<float> v_, d_;
};

class DraftTrialTest : public ::testing::TestWithParam<int> {};

TEST_P(DraftTrialTest, EqualsBruteForceWhateverTheVerdict) {
  const int drafts = GetParam();
  const trace::Trace trace = SmoothTrace({1, 16 * 24 + 5, 50, 2, 6}, 17);
  for (const bool all : {true, false}) {
    const int accepted = all ? drafts + 1 : 1;
    for (const DraftList list : {DraftList::kUnion, DraftList::kShared}) {
      for (const DraftUpdate update : {DraftUpdate::kReplay, DraftUpdate::kFirstRow}) {
        DraftOptions options;
        options.drafts = drafts;
        options.acceptance = all ? 1 : 0;
        options.list = list;
        options.update = update;
        const MissSummary got = Play(trace, options);
        const Rounds expected(trace, drafts, accepted, list == DraftList::kUnion,
                              update == DraftUpdate::kReplay ? accepted : 1);
        EXPECT_NEAR(got.mean, expected.mean, 1e-12);
        EXPECT_NEAR(got.sparsity, expected.sparsity, 1e-12);
        EXPECT_GT(got.mean, 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Drafts, DraftTrialTest, ::testing::Values(1, 2, 7));

TEST(DraftTrialTest, VerdictsFollowTheAcceptance) {
  const trace::Trace trace = SmoothTrace({2, 16 * 24, 300, 1, 2}, 17);
  DraftOptions options;
  options.geometry = {trace.layers, kBlock, kTopk, 1, kernels::Dtype::kF32};
  options.max_slots = trace.Context(trace.steps - 1);
  options.policy = HalfOfAll();
  options.drafts = 3;
  options.acceptance = 0.7;
  DraftTrial trial(options);
  const trace::Scorer scorer(trace);
  LayerVisitor* const visitors[] = {&trial};
  ASSERT_TRUE(Walk({&scorer, nullptr, trace.steps, kTopk, kBlock}, visitors, {4, 1, nullptr}).ok());
  EXPECT_NEAR(trial.MeanAccepted(), 1 + 0.7 + 0.49 + 0.343, 0.3);
}

}  // namespace
}  // namespace spin::prediction

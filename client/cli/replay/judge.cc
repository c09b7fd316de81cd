// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/judge.h"

#include <algorithm>
#include <cstring>

#include "client/cli/replay/layer_buffers.h"
#include "kernels/geometry.h"
#include "trace/topk.h"

namespace spin::cli {
namespace {

// Elements that two ascending lists share.
int CountCommon(absl::Span<const int32_t> a, absl::Span<const int32_t> b) {
  int common = 0;
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    common += a[i] == b[j];
    const bool advance_a = a[i] <= b[j], advance_b = b[j] <= a[i];
    i += advance_a;
    j += advance_b;
  }
  return common;
}

}  // namespace

Judge::Judge(const trace::Scorer* scorer, int steps, int topk, int block)
    : scorer_(scorer), topk_(topk), block_(block) {
  const size_t slots = scorer->Context(steps - 1);
  scores_.resize(slots);
  workspace_.resize(slots);
  truth_.resize(std::min<size_t>(topk, slots));
  kept_.resize(kernels::BlocksOf(static_cast<int64_t>(slots), block));
}

void Judge::Scan(int layer, int step, Verdict* verdict) {
  double lap = 0;
  Lap(&lap);
  context_ = scorer_->ScoreAll(layer, step, scores_.data());
  verdict->full.score = Lap(&lap);
  truth_count_ = trace::TopK(absl::MakeConstSpan(scores_).first(context_), topk_,
                             absl::MakeSpan(workspace_), absl::MakeSpan(truth_));
  verdict->full.topk = Lap(&lap);
}

int Judge::CountMissed(const LayerOutput& output) {
  for (const int32_t j : output.kept) kept_[j] = 1;
  int missed = 0;
  for (int i = 0; i < truth_count_; ++i) missed += kept_[truth_[i] / block_] == 0;
  for (const int32_t j : output.kept) kept_[j] = 0;
  return missed;
}

bool Judge::ScoresEqual(const LayerOutput& output) const {
  const float* score = output.scores.data();
  for (const int32_t j : output.kept) {
    const int begin = j * block_;
    const int count = std::min(block_, context_ - begin);
    if (std::memcmp(score, scores_.data() + begin, count * sizeof(float)) != 0) return false;
    score += count;
  }
  return score == output.scores.data() + output.scores.size();
}

Verdict Judge::Check(int layer, int step, const LayerOutput& output) {
  Verdict verdict;
  Scan(layer, step, &verdict);
  const auto truth = absl::MakeConstSpan(truth_).first(truth_count_);
  verdict.considered_blocks = kernels::BlocksOf(context_, block_);
  verdict.kept_blocks = static_cast<int>(output.kept.size());
  verdict.considered_slots = context_;
  verdict.kept_slots = static_cast<int64_t>(output.scores.size());
  verdict.truth = truth_count_;
  verdict.missed = CountMissed(output);
  verdict.found = CountCommon(truth, output.top);
  const bool all = verdict.kept_blocks == verdict.considered_blocks;
  verdict.exact = ScoresEqual(output) && (!all || truth == output.top);
  return verdict;
}

}  // namespace spin::cli

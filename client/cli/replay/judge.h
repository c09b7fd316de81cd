// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "client/cli/replay/engine.h"
#include "trace/scorer.h"

// Compares what the engine scored and chose with the full scan. Only measures: an engine has none
// of this.
namespace spin::cli {

// One layer of one step.
struct Verdict {
  int considered_blocks = 0;  // of the context
  int kept_blocks = 0;        // really scored
  int64_t considered_slots = 0;
  int64_t kept_slots = 0;
  int truth = 0;       // min(K, slots): the true top-K, ties to the lower slot
  int missed = 0;      // of those, in a block that was not scored
  int found = 0;       // of those, in the engine's own top-K
  bool exact = false;  // kept scores equal the full scan's bit by bit; top-K too if all were kept
  StepTimes full;      // on the host: scoring everything, and the top-K of that
};

class Judge {
 public:
  // The scorer must outlive the judge. Contexts up to that of `steps` steps.
  Judge(const trace::Scorer* scorer, int steps, int topk, int block);

  Verdict Check(int layer, int step, const LayerOutput& output);

 private:
  void Scan(int layer, int step, Verdict* verdict);
  int CountMissed(const LayerOutput& output);
  bool ScoresEqual(const LayerOutput& output) const;

  const trace::Scorer* scorer_;
  int topk_;
  int block_;
  std::vector<float> scores_;  // of the whole context
  std::vector<int32_t> workspace_;
  std::vector<int32_t> truth_;  // ascending
  std::vector<uint8_t> kept_;   // [max_blocks], all 0 between calls
  int context_ = 0;
  int truth_count_ = 0;
};

}  // namespace spin::cli

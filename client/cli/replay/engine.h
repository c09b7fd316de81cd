// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "spin/session.h"
#include "trace/scorer.h"

// The decode loop of an inference engine, as far as its indexer goes, on recorded queries and keys.
namespace spin::cli {

// Where the time of one step went, in seconds.
struct StepTimes {
  double spin = 0;   // in calls of the client library
  double score = 0;  // scoring the kept blocks
  double topk = 0;   // top-K of the kept scores, mapped back to slots

  double all() const { return spin + score + topk; }
};

// What one layer of the last step did. Valid until the next step.
struct LayerOutput {
  absl::Span<const int32_t> kept;  // blocks that were scored, ascending
  absl::Span<const float> scores;  // of their slots, compacted
  absl::Span<const int32_t> top;   // the best K slots among them, ascending
};

class Engine {
 public:
  // The scorer must outlive the engine. Contexts up to that of `steps` steps.
  Engine(const trace::Scorer* scorer, int steps, int topk, int block);

  // One decode step: scores only what Spin says and hands the scores back. Allocates nothing.
  StepTimes Decode(Session* session, const Request& request, int step);

  LayerOutput output(int layer) const;

 private:
  struct Layer {
    std::vector<int32_t> kept;  // [max_blocks]
    std::vector<float> scores;  // [max_blocks * block]
    std::vector<int32_t> top;   // [topk]
    int kept_count = 0, score_count = 0, top_count = 0;
  };
  void Score(int index, int step, absl::Span<const int32_t> blocks);
  void TakeTopK(Layer* layer, absl::Span<const int32_t> blocks);

  const trace::Scorer* scorer_;
  int topk_;
  int block_;
  std::vector<Layer> layers_;
  std::vector<int32_t> workspace_;
};

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "spin/session.h"

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

// On the host, or on a GPU.
class Engine {
 public:
  virtual ~Engine() = default;

  // One decode step: scores only what Spin says and hands the scores back.
  virtual absl::StatusOr<StepTimes> Decode(const Request& request, int step) = 0;

  virtual LayerOutput output(int layer) const = 0;
};

}  // namespace spin::cli

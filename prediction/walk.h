// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Walks through a trace once, step by step, and shows each layer's full scan to all who measure.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "prediction/scan.h"
#include "prediction/sub_block_means.h"
#include "trace/scorer.h"

namespace spin::prediction {

class LayerVisitor {
 public:
  virtual ~LayerVisitor() = default;

  // Every (layer, step) once, the steps of a layer in order. Different layers of one step may be
  // shown by different threads at once; a step begins when the one before has ended for all.
  virtual void Visit(const LayerStep& at) = 0;
};

// What is walked through. The parts must outlive the walk.
struct WalkedTrace {
  const trace::Scorer* scorer;
  const SubBlockMeans* means;  // null: scans have no estimates
  int steps;                   // the first so many of the trace
  int topk;
  int block;
};

struct WalkOptions {
  int history = 2;  // steps whose scans a visitor may look at, the current one included
  int threads = 1;
  // After each step, with the number done; another status than OK ends the walk with it.
  std::function<absl::Status(int done)> after_step;
};

absl::Status Walk(const WalkedTrace& walked, absl::Span<LayerVisitor* const> visitors,
                  const WalkOptions& options);

}  // namespace spin::prediction

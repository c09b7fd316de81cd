// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/layer_buffers.h"

#include <chrono>

#include "trace/topk.h"

namespace spin::cli {

void LayerBuffers::TakeTopK() {
  top_count_ =
      trace::TopK(absl::MakeConstSpan(scores).first(score_count), static_cast<int>(top_.size()),
                  absl::MakeSpan(workspace_), absl::MakeSpan(top_));
  for (int i = 0; i < top_count_; ++i) {
    top_[i] = kept[top_[i] / block_] * block_ + top_[i] % block_;
  }
}

LayerOutput LayerBuffers::output() const {
  return {absl::MakeConstSpan(kept).first(kept_count),
          absl::MakeConstSpan(scores).first(score_count),
          absl::MakeConstSpan(top_).first(top_count_)};
}

double Lap(double* last) {
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  const double lap = now.count() - *last;
  *last = now.count();
  return lap;
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <vector>

#include "client/cli/replay/engine.h"
#include "client/cli/replay/layer_buffers.h"
#include "trace/scorer.h"

namespace spin::cli {

class HostEngine final : public Engine {
 public:
  // Both must outlive the engine. Contexts up to that of `steps` steps.
  HostEngine(Session* session, const trace::Scorer* scorer, int steps, int topk, int block);

  // Allocates nothing, and never fails.
  absl::StatusOr<StepTimes> Decode(const Request& request, int step) override;
  LayerOutput output(int layer) const override { return layers_[layer].output(); }

 private:
  Session* const session_;
  const trace::Scorer* const scorer_;
  const int block_;
  std::vector<LayerBuffers> layers_;
};

}  // namespace spin::cli

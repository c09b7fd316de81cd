// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/host_engine.h"

#include <algorithm>

#include "kernels/geometry.h"

namespace spin::cli {

HostEngine::HostEngine(Session* session, const trace::Scorer* scorer, int steps, int topk,
                       int block)
    : session_(session),
      scorer_(scorer),
      block_(block),
      layers_(scorer->layers(),
              LayerBuffers(kernels::BlocksOf(scorer->Context(steps - 1), block), block, topk)) {}

absl::StatusOr<StepTimes> HostEngine::Decode(const Request& request, int step) {
  StepTimes times;
  double lap = 0;
  Lap(&lap);
  const StepRow row = {&request, scorer_->Context(step) - 1, /*next_n=*/1};
  Step decode = session_->BeginStep({&row, 1});
  for (int index = 0; index < scorer_->layers(); ++index) {
    LayerBuffers& layer = layers_[index];
    const absl::Span<const int32_t> blocks = decode.Kept(index, 0).blocks;
    times.spin += Lap(&lap);
    layer.score_count = scorer_->ScoreBlocks(index, step, blocks, block_, layer.scores.data());
    times.score += Lap(&lap);
    layer.kept_count = static_cast<int>(blocks.size());
    std::copy(blocks.begin(), blocks.end(), layer.kept.begin());
    layer.TakeTopK();
    times.topk += Lap(&lap);
    decode.PutScores(index, {layer.scores.data(), ElementType::kFloat32, layer.score_count, 0});
    times.spin += Lap(&lap);
  }
  decode.End();
  times.spin += Lap(&lap);
  return times;
}

}  // namespace spin::cli

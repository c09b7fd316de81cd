// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/draft_trial.h"

#include <algorithm>
#include <numeric>

#include "kernels/exploration.h"

namespace spin::prediction {
namespace {

// Tags the draws of verdicts, apart from those of blocks (layer below 128) and of audits.
constexpr int kVerdictLayer = 200;

}  // namespace

DraftTrial::DraftTrial(const DraftOptions& options)
    : options_(options),
      choice_(options.geometry, options.max_slots, options.policy),
      all_blocks_(kernels::BlocksOf(options.max_slots, options.geometry.block)),
      tallies_(options.geometry.layers) {
  std::iota(all_blocks_.begin(), all_blocks_.end(), 0);
  kernels::Geometry one_layer = options.geometry;
  one_layer.layers = 1;
  for (int layer = 0; layer < options.geometry.layers; ++layer) {
    layers_.push_back({SpinState(one_layer, options.max_slots, options.policy.decay),
                       1,
                       0,
                       std::vector<float>(all_blocks_.size()),
                       {}});
  }
}

void DraftTrial::Visit(const LayerStep& at) {
  Layer& layer = layers_[at.layer];
  if (at.step == 0) {
    const Scan& scan = at.scan();
    const float* scores = scan.scores.data();
    layer.state.Observe(scan.query, 1, absl::MakeConstSpan(all_blocks_).first(scan.blocks),
                        {&scores, 1});
    return;
  }
  if (at.step < layer.next + options_.drafts) return;  // a round is judged with its last row
  const int first = layer.next;
  const int64_t position = at.window->At(at.layer, first).query;
  Choose(at.layer, position);
  const int accepted = Accepted(position);
  Judge(at, first, accepted);
  Observe(at, first, accepted);
  layer.next += accepted;
  ++layer.rounds;
}

void DraftTrial::Choose(int index, int64_t position) {
  if (options_.list == DraftList::kUnion) return ChooseUnion(index, position);
  Layer& layer = layers_[index];
  const int next_n = options_.drafts + 1;
  const int32_t blocks = kernels::ExtentOf(position, next_n, options_.geometry).blocks;
  const auto worth = absl::MakeSpan(layer.worth).first(blocks);
  layer.state.Predict(position, next_n, worth);
  const auto kept = choice_.Choose(index, position, next_n, options_.policy.sparsity[index], worth);
  layer.kept.assign(kept.begin(), kept.end());
}

void DraftTrial::ChooseUnion(int index, int64_t position) {
  Layer& layer = layers_[index];
  layer.kept.clear();
  for (int row = 0; row <= options_.drafts; ++row) {
    const int32_t blocks = kernels::ExtentOf(position + row, 1, options_.geometry).blocks;
    const auto worth = absl::MakeSpan(layer.worth).first(blocks);
    layer.state.Predict(position + row, 1, worth);
    const auto kept =
        choice_.Choose(index, position + row, 1, options_.policy.sparsity[index], worth);
    layer.kept.insert(layer.kept.end(), kept.begin(), kept.end());
  }
  std::sort(layer.kept.begin(), layer.kept.end());
  layer.kept.erase(std::unique(layer.kept.begin(), layer.kept.end()), layer.kept.end());
}

// Rows that enter, 1 to next_n: the same for all layers of a round.
int DraftTrial::Accepted(int64_t position) const {
  int accepted = 1;
  for (int draft = 0; draft < options_.drafts; ++draft, ++accepted) {
    const auto draw = kernels::DrawBlocks(options_.policy.seed, 0, position, kVerdictLayer, draft);
    if (draw.words[0] >= options_.acceptance * 0x1p32) break;
  }
  return accepted;
}

void DraftTrial::Judge(const LayerStep& at, int first, int accepted) {
  const std::vector<int32_t>& kept = layers_[at.layer].kept;
  const int considered = at.scan().blocks;  // the last row sees the most
  for (int row = 0; row < accepted; ++row) {
    const Scan& scan = at.window->At(at.layer, first + row);
    int held = 0;
    for (const int32_t j : kept) held += j < scan.blocks ? scan.needed[j] : 0;
    const bool once = row == 0;
    tallies_[at.layer].Add(scan.truth - held, scan.truth, once ? static_cast<int>(kept.size()) : 0,
                           once ? considered : 0);
  }
}

void DraftTrial::Observe(const LayerStep& at, int first, int accepted) {
  Layer& layer = layers_[at.layer];
  const float* scores[kernels::kMaxNextN];
  const int rows = options_.update == DraftUpdate::kFirstRow ? 1 : accepted;
  for (int row = 0; row < rows; ++row) {
    scores[row] = at.window->At(at.layer, first + row).scores.data();
  }
  layer.state.Observe(at.window->At(at.layer, first).query, options_.drafts + 1, layer.kept,
                      {scores, static_cast<size_t>(rows)});
}

double DraftTrial::MeanAccepted() const {
  int64_t tokens = 0, rounds = 0;
  for (const Layer& layer : layers_) {
    tokens += layer.next - 1;
    rounds += layer.rounds;
  }
  return static_cast<double>(tokens) / static_cast<double>(rounds);
}

}  // namespace spin::prediction

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/tally.h"

#include "trace/quantile.h"

namespace spin::prediction {
namespace {

double Sparsity(int64_t kept, int64_t considered) {
  return 1 - static_cast<double>(kept) / static_cast<double>(considered);
}

}  // namespace

MissSummary Summarize(absl::Span<const LayerTally> layers) {
  MissSummary summary;
  std::vector<double> all;
  int64_t kept = 0, considered = 0;
  for (const LayerTally& layer : layers) {
    if (layer.miss.empty()) continue;
    all.insert(all.end(), layer.miss.begin(), layer.miss.end());
    kept += layer.kept_blocks;
    considered += layer.considered_blocks;
    summary.layers.push_back(trace::Mean(layer.miss));
    summary.layer_sparsity.push_back(Sparsity(layer.kept_blocks, layer.considered_blocks));
  }
  summary.mean = trace::Mean(all);
  summary.p99 = trace::Percentile(all, 99);
  summary.sparsity = Sparsity(kept, considered);
  return summary;
}

}  // namespace spin::prediction

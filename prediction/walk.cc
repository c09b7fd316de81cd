// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/walk.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace spin::prediction {
namespace {

// Calls work(layer) for every layer, each on one of `threads` threads; returns when all are done.
template <typename Work>
void ForEachLayer(int layers, int threads, const Work& work) {
  std::atomic<int> next = 0;
  const auto run = [&] {
    for (int layer = next++; layer < layers; layer = next++) work(layer);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < std::min(threads, layers); ++i) others.emplace_back(run);
  run();
  for (std::thread& other : others) other.join();
}

}  // namespace

absl::Status Walk(const WalkedTrace& walked, absl::Span<LayerVisitor* const> visitors,
                  const WalkOptions& options) {
  const int layers = walked.scorer->layers();
  ScanWindow window(layers, options.history);
  for (int step = 0; step < walked.steps; ++step) {
    ForEachLayer(layers, options.threads, [&](int layer) {
      ScanLayer(*walked.scorer, walked.means, layer, step, walked.topk, walked.block,
                window.Mutable(layer, step));
    });
    ForEachLayer(layers, options.threads, [&](int layer) {
      for (LayerVisitor* visitor : visitors) visitor->Visit({&window, layer, step});
    });
    if (!options.after_step) continue;
    if (absl::Status status = options.after_step(step + 1); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace spin::prediction

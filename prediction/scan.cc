// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/scan.h"

#include <algorithm>
#include <limits>

#include "kernels/geometry.h"
#include "trace/topk.h"

namespace spin::prediction {

void MaxPool(absl::Span<const float> scores, int block, absl::Span<float> out) {
  for (size_t j = 0; j < out.size(); ++j) {
    const size_t end = std::min((j + 1) * block, scores.size());
    float best = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : best)
    for (size_t i = j * block; i < end; ++i) best = scores[i] > best ? scores[i] : best;
    out[j] = best;
  }
}

void ScanLayer(const trace::Scorer& scorer, const SubBlockMeans* means, int layer, int step,
               int topk, int block, Scan* scan) {
  scan->slots = scorer.Context(step);
  scan->query = scan->slots - 1;
  scan->blocks = kernels::BlocksOf(scan->slots, block);
  scan->truth = std::min(topk, scan->slots);
  scan->scores.resize(scan->slots);
  scan->workspace.resize(scan->slots);
  scan->block_max.resize(scan->blocks);
  scan->top.resize(scan->truth);
  scorer.ScoreAll(layer, step, scan->scores.data());
  MaxPool(scan->scores, block, absl::MakeSpan(scan->block_max));
  trace::TopK(scan->scores, topk, absl::MakeSpan(scan->workspace), absl::MakeSpan(scan->top));
  scan->needed.assign(scan->blocks, 0);
  for (const int32_t slot : scan->top) ++scan->needed[slot / block];
  if (means == nullptr) return;
  scan->estimates.resize(kernels::BlocksOf(scan->slots, kSubBlockSlots));
  means->Estimate(layer, step, absl::MakeSpan(scan->estimates));
}

}  // namespace spin::prediction

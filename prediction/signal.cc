// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/signal.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "kernels/exploration.h"
#include "trace/topk.h"

namespace spin::prediction {
namespace {

constexpr float kUnseen = -std::numeric_limits<float>::infinity();
constexpr uint64_t kSignalKey = 1;  // keeps these draws apart from those of blocks

// NaN where one side does not vary, or is not finite.
double Pearson(absl::Span<const float> x, absl::Span<const float> y) {
  const double n = static_cast<double>(x.size());
  double sum_x = 0, sum_y = 0;
#pragma omp simd reduction(+ : sum_x, sum_y)
  for (size_t i = 0; i < x.size(); ++i) {
    sum_x += x[i];
    sum_y += y[i];
  }
  const double mean_x = sum_x / n, mean_y = sum_y / n;
  double xx = 0, yy = 0, xy = 0;
#pragma omp simd reduction(+ : xx, yy, xy)
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x, dy = y[i] - mean_y;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  return xy / std::sqrt(xx * yy);
}

}  // namespace

const char* SignalName(SignalKind kind) {
  switch (kind) {
    case SignalKind::kRandom:
      return "random";
    case SignalKind::kPreviousLayer:
      return "prev_layer";
    case SignalKind::kPreviousIteration:
      return "prev_iter";
    case SignalKind::kPreviousIterationOffset:
      return "prev_iter_offset1";
    case SignalKind::kSpin:
      return "spin";
  }
  return "";
}

SignalMeter::SignalMeter(const kernels::Geometry& geometry, int64_t max_slots, double decay,
                         uint64_t seed)
    : topk_(geometry.topk), seed_(seed), all_blocks_(kernels::BlocksOf(max_slots, geometry.block)) {
  std::iota(all_blocks_.begin(), all_blocks_.end(), 0);
  kernels::Geometry one_layer = geometry;
  one_layer.layers = 1;
  for (int layer = 0; layer < geometry.layers; ++layer) {
    layers_.push_back({SpinState(one_layer, max_slots, decay), {}, {}, {}, {}});
  }
}

// False where there is none.
bool SignalMeter::FillSignal(SignalKind kind, const LayerStep& at, Layer* layer) const {
  std::vector<float>& signal = layer->signal;
  const Scan& previous = at.previous();
  switch (kind) {
    case SignalKind::kRandom:
      signal.resize(previous.slots);
      for (size_t i = 0; i < signal.size(); ++i) {
        const auto draw = kernels::DrawBlocks(seed_, kSignalKey, at.scan().query, at.layer,
                                              static_cast<int>(i) / 4);
        signal[i] = static_cast<float>(draw.words[i % 4] >> 8);  // 24 bits: a float holds them
      }
      return true;
    case SignalKind::kPreviousLayer:
      if (at.layer == 0) return false;
      signal = at.of_layer(at.layer - 1).scores;
      signal.resize(previous.slots);
      return true;
    case SignalKind::kPreviousIteration:
      signal = previous.scores;
      return true;
    case SignalKind::kPreviousIterationOffset:
      signal.assign(1, kUnseen);  // slot 0 has nothing before it
      signal.insert(signal.end(), previous.scores.begin(), previous.scores.end() - 1);
      return true;
    case SignalKind::kSpin:
      signal.resize(previous.slots);
      layer->state.SlotSignal(at.scan().query, absl::MakeSpan(signal));
      return true;
  }
  return false;
}

void SignalMeter::Compare(SignalKind kind, const Scan& scan, Layer* layer) const {
  const std::vector<float>& signal = layer->signal;
  layer->workspace.resize(signal.size());
  layer->top.resize(std::min<size_t>(topk_, signal.size()));
  trace::TopK(signal, topk_, absl::MakeSpan(layer->workspace), absl::MakeSpan(layer->top));
  layer->workspace.clear();
  std::set_intersection(layer->top.begin(), layer->top.end(), scan.top.begin(), scan.top.end(),
                        std::back_inserter(layer->workspace));
  const size_t first = signal.front() == kUnseen ? 1 : 0;
  const auto known = absl::MakeConstSpan(signal).subspan(first);
  Sum& sum = layer->sums[static_cast<int>(kind)];
  sum.pearson += Pearson(known, absl::MakeConstSpan(scan.scores).subspan(first, known.size()));
  sum.recall += static_cast<double>(layer->workspace.size()) / scan.truth;
  ++sum.count;
}

void SignalMeter::Visit(const LayerStep& at) {
  Layer& layer = layers_[at.layer];
  const Scan& scan = at.scan();
  for (int k = 0; at.step > 0 && k < kSignalKinds; ++k) {
    const auto kind = static_cast<SignalKind>(k);
    if (FillSignal(kind, at, &layer)) Compare(kind, scan, &layer);
  }
  const float* scores = scan.scores.data();
  layer.state.Observe(scan.query, 1, absl::MakeConstSpan(all_blocks_).first(scan.blocks),
                      {&scores, 1});
}

SignalSummary SignalMeter::Read(SignalKind kind) const {
  Sum total;
  for (const Layer& layer : layers_) {
    const Sum& sum = layer.sums[static_cast<int>(kind)];
    total.pearson += sum.pearson;
    total.recall += sum.recall;
    total.count += sum.count;
  }
  const auto count = static_cast<double>(total.count);
  return {total.pearson / count, total.recall / count};
}

}  // namespace spin::prediction

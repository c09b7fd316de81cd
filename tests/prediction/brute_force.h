// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// The predictors once more, in the plainest form: whole arrays, sorts, no kernels. What the library
// is held to.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "trace/fp8.h"
#include "trace/scorer.h"
#include "trace/trace.h"

namespace spin::prediction {

class BruteForce {
 public:
  static constexpr float kUnseen = -std::numeric_limits<float>::infinity();

  BruteForce(const trace::Trace& trace, int topk, int block)
      : trace_(trace), topk_(topk), block_(block) {
    const trace::Scorer scorer(trace);
    scores_.resize(trace.layers);
    for (int layer = 0; layer < trace.layers; ++layer) {
      for (int step = 0; step < trace.steps; ++step) {
        scores_[layer].emplace_back(trace.Context(step));
        scorer.ScoreAll(layer, step, scores_[layer].back().data());
      }
    }
  }

  // Missed top-K slots in each step from 1 on.
  std::vector<int> Missed(const std::string& name, int layer, double sparsity, float alpha) const {
    const int max_slots = trace_.Context(trace_.steps - 1);
    std::vector<float> v(max_slots, kUnseen), d(max_slots, kUnseen);
    std::vector<float> pooled_v(Blocks(max_slots), kUnseen), pooled_d(pooled_v);
    std::vector<float> excess(max_slots, kUnseen);
    double error = 0;
    std::vector<int> missed;
    for (int step = 0; step < trace_.steps; ++step) {
      const int slots = trace_.Context(step), query = slots - 1, blocks = Blocks(slots);
      std::vector<bool> kept(blocks, true);
      if (step > 0) {
        std::vector<float> signal(slots, kUnseen);
        for (int i = 0; i < slots; ++i) {
          if (name != "d_only") signal[i] = std::max(signal[i], v[i]);
          if (name != "v_only") signal[i] = std::max(signal[i], d[query - i]);
        }
        std::vector<float> worth = Pool(signal);
        if (name == "A2") {
          for (int j = 0; j < blocks; ++j) {
            worth[j] = std::max(pooled_v[j], pooled_d[query / block_ - j]);
          }
        }
        if (name == "sub_block_mean") worth = Pool(Estimates(layer, step));
        if (name == "query_aware") worth = ExpectedTop(Sum(Estimates(layer, step), excess), error);
        if (name == "block_oracle") worth = Needed(layer, step);
        int keep = Keep(slots, sparsity);
        if (name == "A0") keep = std::max(BlocksOfBest(signal, sparsity), Keep(slots, 1 - 1e-12));
        if (name == "prev_iter") worth = Pool(Padded(scores_[layer][step - 1], slots));
        if (name == "prev_iter_offset1") {
          std::vector<float> shifted = scores_[layer][step - 1];
          shifted.insert(shifted.begin(), kUnseen);
          worth = Pool(shifted);
        }
        if (name == "prev_layer") worth = Pool(scores_[layer - 1][step]);
        kept = Choose(worth, keep);
        if (name == "prev_layer_best5") {
          for (int other = layer - 1; other >= std::max(0, layer - 5); --other) {
            const auto candidate = Choose(Pool(scores_[other][step]), keep);
            if (other == layer - 1 ||
                CountMissed(layer, step, candidate) < CountMissed(layer, step, kept)) {
              kept = candidate;
            }
          }
        }
        missed.push_back(CountMissed(layer, step, kept));
      }
      const auto move = [alpha](float score, float* average) {
        *average = *average == kUnseen ? score : alpha * *average + (1 - alpha) * score;
      };
      const std::vector<float> maxima = Pool(scores_[layer][step]);
      const std::vector<float> estimates = Estimates(layer, step);
      const std::vector<float> predicted = Sum(estimates, excess);
      double errors = 0, scored = 0;
      for (int j = 0; j < blocks; ++j) {
        if (!kept[j]) continue;
        for (int i = j * block_; i < std::min(slots, (j + 1) * block_); ++i) {
          move(scores_[layer][step][i], &v[i]);
          move(scores_[layer][step][i], &d[query - i]);
          move(scores_[layer][step][i] - estimates[i], &excess[i]);
          errors += std::abs(scores_[layer][step][i] - predicted[i]);
          scored += 1;
        }
        move(maxima[j], &pooled_v[j]);
        move(maxima[j], &pooled_d[query / block_ - j]);
      }
      error = errors / scored;
    }
    return missed;
  }

  // Budget of blocks without drafts; the tail, one block or two, is pinned within.
  int Keep(int slots, double sparsity) const {
    const int blocks = Blocks(slots);
    const int keep = blocks - static_cast<int>(std::floor(sparsity * blocks + 1e-9));
    return std::min(blocks, std::max({keep, (topk_ + block_ - 1) / block_, 1}));
  }

  // The last block, then the best; ties to the lower one.
  std::vector<bool> Choose(const std::vector<float>& worth, int keep) const {
    const int blocks = static_cast<int>(worth.size());
    std::vector<int> order(blocks - 1);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return worth[a] > worth[b]; });
    std::vector<bool> kept(blocks, false);
    kept[blocks - 1] = true;
    for (int i = 0; i < keep - 1; ++i) kept[order[i]] = true;
    return kept;
  }

  int CountMissed(int layer, int step, const std::vector<bool>& kept) const {
    int missed = 0;
    for (const int slot : Top(scores_[layer][step])) missed += kept[slot / block_] ? 0 : 1;
    return missed;
  }

  std::vector<int> Top(const std::vector<float>& scores) const {
    std::vector<int> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return scores[a] > scores[b]; });
    order.resize(std::min<size_t>(topk_, order.size()));
    return order;
  }

  std::vector<float> Pool(const std::vector<float>& scores) const {
    std::vector<float> pooled(Blocks(static_cast<int>(scores.size())), kUnseen);
    for (size_t i = 0; i < scores.size(); ++i) {
      pooled[i / block_] = std::max(pooled[i / block_], scores[i]);
    }
    return pooled;
  }

  const std::vector<float>& scores(int layer, int step) const { return scores_[layer][step]; }
  int Blocks(int slots) const { return (slots + block_ - 1) / block_; }

 private:
  static std::vector<float> Padded(std::vector<float> scores, int slots) {
    scores.resize(slots, kUnseen);
    return scores;
  }

  std::vector<float> Needed(int layer, int step) const {
    std::vector<float> needed(Blocks(trace_.Context(step)));
    for (const int slot : Top(scores_[layer][step])) needed[slot / block_] += 1;
    return needed;
  }

  int BlocksOfBest(const std::vector<float>& signal, double sparsity) const {
    std::vector<int> order(signal.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return signal[a] > signal[b]; });
    const int slots = static_cast<int>(signal.size());
    std::vector<bool> touched(Blocks(slots));
    for (int i = 0; i < slots - static_cast<int>(std::floor(sparsity * slots + 1e-9)); ++i) {
      touched[order[i] / block_] = true;
    }
    return static_cast<int>(std::count(touched.begin(), touched.end(), true));
  }

  static std::vector<float> Sum(std::vector<float> estimates, const std::vector<float>& excess) {
    for (size_t i = 0; i < estimates.size(); ++i) {
      estimates[i] += excess[i] == kUnseen ? 0 : excess[i];
    }
    return estimates;
  }

  // How many of the top-K slots each block is expected to hold.
  std::vector<float> ExpectedTop(const std::vector<float>& predicted, double error) const {
    const double threshold = predicted[WorstOfTop(predicted)];
    const double scale = error * std::sqrt(M_PI / 2) * std::sqrt(3) / M_PI;
    std::vector<double> sums(Blocks(static_cast<int>(predicted.size())));
    for (size_t i = 0; i < predicted.size(); ++i) {
      sums[i / block_] += 1 / (1 + std::exp((threshold - predicted[i]) / scale));
    }
    return {sums.begin(), sums.end()};
  }

  int WorstOfTop(const std::vector<float>& scores) const {
    const std::vector<int> top = Top(scores);
    return *std::min_element(top.begin(), top.end(),
                             [&](int a, int b) { return scores[a] < scores[b]; });
  }

  // Of each slot, the score of the mean key of its 16 slots.
  std::vector<float> Estimates(int layer, int step) const {
    const int slots = trace_.Context(step);
    std::vector<float> out(slots);
    for (int first = 0; first < slots; first += 16) {
      const int end = std::min(first + 16, slots);
      std::vector<double> mean(trace_.dim);
      for (int slot = first; slot < end; ++slot) {
        const size_t row = static_cast<size_t>(layer) * trace_.slots + slot;
        for (int d = 0; d < trace_.dim; ++d) {
          mean[d] += static_cast<double>(trace_.k_scale[row]) *
                     trace::kFp8ToFloat[trace_.k[row * trace_.dim + d]] / (end - first);
        }
      }
      double score = 0;
      for (int h = 0; h < trace_.heads; ++h) {
        const size_t row = (static_cast<size_t>(layer) * trace_.steps + step) * trace_.heads + h;
        double dot = 0;
        for (int d = 0; d < trace_.dim; ++d) {
          dot += mean[d] * trace::kFp8ToFloat[trace_.q[row * trace_.dim + d]];
        }
        score += trace_.w[row] * std::max(dot, 0.0);
      }
      std::fill(out.begin() + first, out.begin() + end, static_cast<float>(score));
    }
    return out;
  }

  const trace::Trace& trace_;
  int topk_, block_;
  std::vector<std::vector<std::vector<float>>> scores_;  // [layers][steps][slots]
};

}  // namespace spin::prediction

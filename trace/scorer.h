// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// The indexer on the CPU: scores of a trace's slots, for all slots or for chosen blocks.
//
//     z[l,t,i] = k_scale[l,i] * sum_h w[l,t,h] * relu(q[l,t,h] . k[l,i])
//
// A slot's score is the same bits whichever blocks are asked for and whatever the block size, as it
// is on the GPU when a stock scoring kernel gets a compacted block table. Between machines with
// different instruction sets the last bits may differ.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "trace/scorer_kernel.h"
#include "trace/trace.h"

namespace spin::trace {

// Immutable after construction, so any number of threads may score at once. Scoring allocates
// nothing. The keys are held decoded: 2 bytes per slot and dimension, twice the trace's.
class Scorer {
 public:
  // Copies what it needs; the trace may be destroyed. The kernel is the fastest one for this
  // machine.
  explicit Scorer(const Trace& trace) : Scorer(trace, RunnableScoreKernels().front()) {}
  Scorer(const Trace& trace, NamedScoreKernel kernel);

  // Scores the slots of the listed blocks, in list order and without gaps: block j holds slots
  // [j * block, (j + 1) * block) and gives `block` scores, or fewer where the step's context ends.
  // Blocks outside the context give none. `block`: slots per block, a positive multiple of 16.
  // `out` needs room for block * blocks.size() scores. Returns the number written.
  int ScoreBlocks(int layer, int step, absl::Span<const int32_t> blocks, int block,
                  float* out) const;

  // Scores every slot of the step's context, in order. `out` needs room for Context(step) scores.
  // Returns the number written.
  int ScoreAll(int layer, int step, float* out) const;

  const char* kernel_name() const { return kernel_.name; }
  int layers() const { return layers_; }
  int steps() const { return steps_; }
  int Context(int step) const { return first_query_ + step + 1; }  // slots that the step sees

  // Floating point operations behind one score: a multiply and an add per head and dimension, and
  // per head the ReLU and the weighted sum. Heads are the trace's, without padding.
  double FlopsPerScore() const { return heads_ * (2.0 * dim_ + 3.0) + 1.0; }

 private:
  class TilePairs;

  void DecodeKeys(const Trace& trace, int layer);
  void DecodeQuery(const Trace& trace, int layer, int step);

  int layers_, steps_, heads_, dim_, first_query_;
  // Whole tiles, head groups and dimension pairs; zeros fill the rest and add exactly nothing.
  int tiles_, head_groups_, dim_pairs_;
  std::vector<KeyLanes> k_;     // [layers, tiles, dim_pairs]
  std::vector<Lanes> k_scale_;  // [layers, tiles]
  std::vector<float> q_;        // [layers, steps, head_groups, 2 * dim_pairs, kHeadGroup]
  std::vector<float> w_;        // [layers, steps, head_groups, kHeadGroup]
  NamedScoreKernel kernel_;
};

}  // namespace spin::trace

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// A recorded indexer trace: what the indexer of a real model saw in consecutive decode steps.
// Enough to score any slot again, so a prediction can be judged against the full scan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace spin::trace {

// Owns all its data; nothing refers to the file after loading. 1 slot = 1 indexer entry.
//
// Values are as recorded: an FP8 NaN code or a non-finite scale or weight is kept and makes its
// scores NaN or infinite. Whoever consumes the scores counts those.
struct Trace {
  int layers = 0;
  int slots = 0;  // of the last step's context, or more
  int steps = 0;
  int heads = 0;
  int dim = 0;
  int first_query = 0;             // query position of step 0, in slots
  std::vector<int> layer_numbers;  // [layers], the model's own, ascending; a trace may skip layers

  std::vector<uint8_t> k;      // [layers, slots, dim], FP8 E4M3 codes
  std::vector<float> k_scale;  // [layers, slots]
  std::vector<uint8_t> q;      // [layers, steps, heads, dim], FP8 E4M3 codes
  std::vector<float> w;        // [layers, steps, heads]; query and softmax scale are folded in

  // Query position of a step. The step sees slots 0 to that position, `Context(step)` of them.
  int Query(int step) const { return first_query + step; }
  int Context(int step) const { return first_query + step + 1; }

  // Drops all but the first `count` steps, 1 to steps.
  void KeepSteps(int count);
};

// Reads and validates a trace: a safetensors file with the tensors k, k_scale, q and w as above and
// the metadata strings first_query, steps and layers ("[0, 4, 8]", the layer numbers).
//
// NOT_FOUND: no such file. INVALID_ARGUMENT: anything else that is wrong with it, in one sentence
// that names the file and the field and says what was expected.
absl::StatusOr<Trace> LoadTrace(const std::string& path);

}  // namespace spin::trace

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Random traces whose queries drift slowly, so that the past says something of the future.
#pragma once

#include <cmath>

#include "tests/trace/random_trace.h"

namespace spin::prediction {

// The scales are positive; a quarter of the query's elements change from step to step.
inline trace::Trace SmoothTrace(const trace::TraceShape& shape, uint32_t seed) {
  trace::Trace trace = trace::RandomTrace(shape, seed);
  for (float& scale : trace.k_scale) scale = std::abs(scale);
  const int row = shape.heads * shape.dim;
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (int step = 1; step < shape.steps; ++step) {
      const size_t at = (static_cast<size_t>(layer) * shape.steps + step) * row;
      for (int e = 0; e < row; ++e) {
        if ((e + step) % 4 != 0) trace.q[at + e] = trace.q[at + e - row];
      }
      for (int h = 0; h < shape.heads; ++h) {
        const size_t w = (static_cast<size_t>(layer) * shape.steps + step) * shape.heads + h;
        trace.w[w] = 0.9f * trace.w[w - shape.heads] + 0.1f * trace.w[w];
      }
    }
  }
  return trace;
}

}  // namespace spin::prediction

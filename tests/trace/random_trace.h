// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Traces of any shape, for the tests of what reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <random>

#include "trace/trace.h"

namespace spin::trace {

struct TraceShape {
  int layers, slots, steps, heads, dim;
};

inline void PrintTo(const TraceShape& s, std::ostream* out) {
  *out << "[" << s.layers << ", " << s.slots << ", " << s.steps << ", " << s.heads << ", " << s.dim
       << "]";
}

// Numbers of any finite FP8 code; weights and scales of both signs. The last step sees all slots.
inline Trace RandomTrace(const TraceShape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  const auto code = [&] {
    const uint8_t value = static_cast<uint8_t>(random());
    return (value & 0x7f) == 0x7f ? uint8_t{0} : value;
  };
  const auto weight = [&] { return std::uniform_real_distribution<float>(-1, 1)(random); };
  Trace trace;
  trace.layers = shape.layers;
  trace.slots = shape.slots;
  trace.steps = shape.steps;
  trace.heads = shape.heads;
  trace.dim = shape.dim;
  trace.first_query = shape.slots - shape.steps;
  for (int layer = 0; layer < shape.layers; ++layer) trace.layer_numbers.push_back(layer);
  trace.k_scale.resize(static_cast<size_t>(shape.layers) * shape.slots);
  trace.k.resize(trace.k_scale.size() * shape.dim);
  trace.w.resize(static_cast<size_t>(shape.layers) * shape.steps * shape.heads);
  trace.q.resize(trace.w.size() * shape.dim);
  for (uint8_t& k : trace.k) k = code();
  for (float& scale : trace.k_scale) scale = weight();
  for (uint8_t& q : trace.q) q = code();
  for (float& w : trace.w) w = weight();
  return trace;
}

}  // namespace spin::trace

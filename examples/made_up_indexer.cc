// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "made_up_indexer.h"

#include <algorithm>
#include <cmath>

namespace {

constexpr float kBias = 3;  // keeps q . k above 0, where relu changes nothing

// FP8 E4M3: sign, four bits of exponent (bias 7), three of mantissa; no infinity.
uint8_t ToFp8(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  int exponent;
  const float fraction = std::frexp(std::abs(value), &exponent);  // [0.5, 1)
  exponent = std::max(exponent + 6, 1);                           // 1: where subnormals begin, too
  if (fraction == 0) return sign;
  const auto eighths = static_cast<int>(std::lround(std::ldexp(std::abs(value), 10 - exponent)));
  return sign | static_cast<uint8_t>(std::min((exponent - 1) * 8 + eighths, 0x7e));
}

float FromFp8(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int eighths = (code & 7) + (exponent > 0 ? 8 : 0);
  const float size = std::ldexp(static_cast<float>(eighths), std::max(exponent, 1) - 10);
  return code & 0x80 ? -size : size;
}

// Quantises `values` in place, and appends the codes.
void Quantise(absl::Span<float> values, std::vector<uint8_t>* codes) {
  for (float& value : values) {
    codes->push_back(ToFp8(value));
    value = FromFp8(codes->back());
  }
}

float Wave(double phase) { return static_cast<float>(std::sin(phase)); }

}  // namespace

MadeUpIndexer::MadeUpIndexer(int layers, int slots) : scales_(slots, 1.0f) {
  constexpr double kQuarter = 1.5707963;  // cos(a - b) is the product of (cos, sin) of both
  for (int layer = 0; layer < layers; ++layer) {
    for (int slot = 0; slot < slots; ++slot) {
      float key[kDim] = {1, Wave(0.011 * slot * (layer + 3)), Wave(0.007 * slot + kQuarter),
                         Wave(0.007 * slot)};
      for (int d = 4; d < kDim; ++d) key[d] = Wave(7.0 * slot * d);
      Quantise(absl::MakeSpan(key), &codes_);
      values_.insert(values_.end(), std::begin(key), std::end(key));
    }
  }
}

MadeUpIndexer::Query MadeUpIndexer::QueryAt(int layer, int64_t position) const {
  const double turn = 0.007 * static_cast<double>(position);
  Query query;
  for (int head = 0; head < kHeads; ++head) {
    // One head looks at what a slot is, the other at how far away it is.
    float q[kDim] = {kBias, head == 0 ? 1.0f : 0.1f};
    q[2] = Wave(turn + 1.5707963) * (head == 0 ? 0.1f : 1.0f);
    q[3] = Wave(turn) * (head == 0 ? 0.1f : 1.0f);
    for (int d = 4; d < kDim; ++d) {
      q[d] = 0.1f * Wave(static_cast<double>(position) * (13 + d) + layer + head);
    }
    Quantise(absl::MakeSpan(q), &query.codes);
    query.values.insert(query.values.end(), std::begin(q), std::end(q));
    query.weights.push_back(1);
  }
  return query;
}

float MadeUpIndexer::Score(int layer, const Query& query, int64_t slot) const {
  const float* key = values_.data() + Index(layer, slot);
  float score = 0;
  for (int head = 0; head < kHeads; ++head) {
    float dot = 0;
    for (int d = 0; d < kDim; ++d) dot += query.values[head * kDim + d] * key[d];
    score += query.weights[head] * std::max(dot, 0.0f);
  }
  return score;
}

absl::Span<const uint8_t> MadeUpIndexer::Keys(int layer, int64_t first, int64_t count) const {
  return {codes_.data() + Index(layer, first), static_cast<size_t>(count * kDim)};
}

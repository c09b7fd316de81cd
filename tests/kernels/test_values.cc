// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/kernels/test_values.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace spin::kernels {

Row RowAt(int64_t position, uint32_t next_n) {
  return {.request = 0, .next_n = next_n, .position = position, .buffer = 0, .generation = 1};
}

ScoredRow ScoredAt(int64_t position, uint32_t next_n) {
  return {.request = 0,
          .next_n = next_n,
          .position = position,
          .accepted = next_n,
          .buffer = 0,
          .coverage = Coverage::kAll,
          .score_row = 0};
}

Policy Skip(double sparsity) {
  Policy policy = {};
  std::fill(std::begin(policy.sparsity), std::end(policy.sparsity), sparsity);
  return policy;
}

ScoreTensor::ScoreTensor(int32_t layers, int32_t rows, int32_t drafts, int64_t slots, Dtype element)
    : dtype(element) {
  // Vectors of 16 bytes begin at multiples of 8 elements of either type.
  const auto stride = [aligned = slots % 2 == 0](int64_t elements) {
    return aligned ? (elements + 7) / 8 * 8 : elements;
  };
  draft_stride = stride(slots + 3);
  row_stride = stride(drafts * draft_stride + 5);
  layer_stride = stride(rows * row_stride + 7);
  values.assign(layers * layer_stride, std::numeric_limits<float>::quiet_NaN());
}

float* ScoreTensor::At(int32_t layer, int32_t row, int32_t draft) {
  return &values[layer * layer_stride + row * row_stride + draft * draft_stride];
}

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::vector<std::byte> Pack(const std::vector<float>& values, Dtype dtype) {
  const auto size = static_cast<size_t>(DtypeBytes(dtype));
  std::vector<std::byte> out(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = BitsOf(values[i]);  // bf16 is the upper half; its bytes come last
    std::memcpy(&out[i * size], reinterpret_cast<const std::byte*>(&bits) + (4 - size), size);
  }
  return out;
}

std::vector<float> Unpack(const std::vector<std::byte>& bytes, Dtype dtype) {
  const auto size = static_cast<size_t>(DtypeBytes(dtype));
  std::vector<float> out(bytes.size() / size);
  for (size_t i = 0; i < out.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<std::byte*>(&bits) + (4 - size), &bytes[i * size], size);
    out[i] = FromBits(bits);
  }
  return out;
}

::testing::AssertionResult SameBits(const std::vector<float>& actual,
                                    const std::vector<float>& expected) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure() << actual.size() << " elements, not " << expected.size();
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    if (BitsOf(actual[i]) == BitsOf(expected[i])) continue;
    return ::testing::AssertionFailure()
           << "element " << i << " is " << actual[i] << ", not " << expected[i] << "; bits "
           << absl::StrCat(absl::Hex(BitsOf(actual[i])), ", not ", absl::Hex(BitsOf(expected[i])));
  }
  return ::testing::AssertionSuccess();
}

}  // namespace spin::kernels

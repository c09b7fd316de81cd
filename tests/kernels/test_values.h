// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/geometry.h"
#include "kernels/policy.h"
#include "kernels/rows.h"

// The values that tests hand to a device, on the host.
namespace spin::kernels {

// A row for the first request; set what is different.
Row RowAt(int64_t position, uint32_t next_n = 1);
ScoredRow ScoredAt(int64_t position, uint32_t next_n = 1);  // all accepted, scored in full

// A policy that skips `sparsity` in each layer, without exploration, audits or sink.
Policy Skip(double sparsity);

// Scores of a launch in host memory, which a GPU can copy by vectors if the number of slots is
// even. For Dtype::kBF16 they must be bf16 values.
struct ScoreTensor {
  ScoreTensor(int32_t layers, int32_t rows, int32_t drafts, int64_t slots,
              Dtype element = Dtype::kF32);

  float* At(int32_t layer, int32_t row, int32_t draft = 0);

  Dtype dtype;
  int64_t row_stride;  // strides in elements; gaps between rows hold NaN
  int64_t layer_stride;
  int64_t draft_stride;
  std::vector<float> values;
};

// Elements as they lie in memory of this type, and back. bf16 takes the upper half of each float.
std::vector<std::byte> Pack(const std::vector<float>& values, Dtype dtype);
std::vector<float> Unpack(const std::vector<std::byte>& bytes, Dtype dtype);

uint32_t BitsOf(float value);
float FromBits(uint32_t bits);

// Equal bit by bit; says where not.
::testing::AssertionResult SameBits(const std::vector<float>& actual,
                                    const std::vector<float>& expected);

}  // namespace spin::kernels

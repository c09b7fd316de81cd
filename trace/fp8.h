// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// FP8 E4M3 ("fn": no infinities) to float, exactly. Both NaN codes, 0x7f and 0xff, become NaN.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace spin::trace {

// Sign bit, 4 exponent bits with bias 7, 3 mantissa bits; exponent 0 holds zero and subnormals.
constexpr float Fp8ToFloat(uint8_t code) {
  const int exponent = (code >> 3) & 0xf;
  const int mantissa = code & 0x7;
  if (exponent == 0xf && mantissa == 0x7) return std::numeric_limits<float>::quiet_NaN();
  float value = exponent == 0 ? mantissa / 8.0f : 1.0f + mantissa / 8.0f;
  for (int e = exponent == 0 ? 1 : exponent; e > 7; --e) value *= 2.0f;
  for (int e = exponent == 0 ? 1 : exponent; e < 7; ++e) value *= 0.5f;
  return (code & 0x80) != 0 ? -value : value;
}

inline constexpr std::array<float, 256> kFp8ToFloat = [] {
  std::array<float, 256> table{};
  for (int code = 0; code < 256; ++code) table[code] = Fp8ToFloat(static_cast<uint8_t>(code));
  return table;
}();

}  // namespace spin::trace

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/geometry.h"
#include "kernels/host_device.h"

// The one arithmetic rule of the state, shared bit by bit by CPU and CUDA:
//
//   next = rn(rn(a * old) + rn(c * z))    a = float(alpha), c = float(1 - alpha), all in fp32, no
//   FMA next = z                              if old is -infinity (never observed)
//
// and a bf16 state rounds `next` once more, to nearest even, when it is stored. A score whose
// result is not finite (NaN, Inf, beyond the range of the state) leaves the entry as it was and is
// counted.
namespace spin::kernels {

struct Bf16 {
  uint16_t bits;
};

inline constexpr float kUnobserved = -std::numeric_limits<float>::infinity();

// The largest value that stays finite when a state of type T stores it.
template <typename T>
inline constexpr float kLargest = std::numeric_limits<float>::max();
template <>
inline constexpr float kLargest<Bf16> = 0x1.fefffep127f;

struct EmaWeights {
  float past;  // a
  float now;   // c
};

inline EmaWeights WeightsOf(double decay) {
  return {static_cast<float>(decay), static_cast<float>(1.0 - decay)};
}

SPIN_HOST_DEVICE inline float ToFloat(float value) { return value; }

SPIN_HOST_DEVICE inline float ToFloat(Bf16 value) {
  const uint32_t bits = uint32_t{value.bits} << 16;
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

template <typename T>
SPIN_HOST_DEVICE T FromFloat(float value);

template <>
SPIN_HOST_DEVICE inline float FromFloat<float>(float value) {
  return value;
}

template <>
SPIN_HOST_DEVICE inline Bf16 FromFloat<Bf16>(float value) {  // not for NaN
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace spin::kernels

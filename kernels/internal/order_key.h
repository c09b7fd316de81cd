// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/host_device.h"

namespace spin::kernels::internal {

// Integers in the order of the floats: a < b exactly if OrderKey(a) < OrderKey(b). -0 and +0 are
// equal; NaN is below -infinity. 0 and UINT32_MAX are nobody's.
SPIN_HOST_DEVICE inline uint32_t OrderKey(float value) {
  if (value != value) return 1;
  value += 0.0f;  // -0 becomes +0
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

}  // namespace spin::kernels::internal

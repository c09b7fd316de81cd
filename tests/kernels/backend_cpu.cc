// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <new>

#include "tests/kernels/device_test.h"

namespace spin::kernels {

std::vector<Backend> Backends() {
  constexpr std::align_val_t kAlignment{256};
  return {{
      .name = "cpu",
      .make_device = MakeCpuDevice,
      .allocate = [](size_t bytes) { return operator new(bytes, kAlignment); },
      .release = [](void* memory) { operator delete(memory, kAlignment); },
  }};
}

}  // namespace spin::kernels

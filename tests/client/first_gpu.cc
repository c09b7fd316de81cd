// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/client/first_gpu.h"

#include "kernels/cuda_device.h"

namespace spin {

std::string FirstGpu() {
  const auto devices = kernels::ListCudaDevices();
  return devices.ok() ? devices->front().uuid : "";
}

}  // namespace spin

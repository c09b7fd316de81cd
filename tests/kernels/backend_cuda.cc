// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <cuda_runtime_api.h>

#include <cstdio>

#include "kernels/cuda_device.h"
#include "tests/kernels/device_test.h"

namespace spin::kernels {
namespace {

std::unique_ptr<Device> FirstDevice() {
  const auto devices = ListCudaDevices();
  if (!devices.ok()) return nullptr;  // its reason is the skipped test's
  auto device = MakeCudaDevice(devices->front().uuid);
  EXPECT_TRUE(device.ok()) << device.status();
  return device.ok() ? *std::move(device) : nullptr;
}

}  // namespace

std::vector<Backend> Backends() {
  return {{
      .name = "cuda",
      .make_device = FirstDevice,
      .allocate =
          [](size_t bytes) {
            void* memory = nullptr;
            EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
            return memory;
          },
      .release = [](void* memory) { EXPECT_EQ(cudaFree(memory), cudaSuccess); },
  }};
}

}  // namespace spin::kernels

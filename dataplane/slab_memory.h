// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

namespace spin::dataplane {

// The memory that both processes see: POSIX shared memory for the CPU device, device memory shared
// by CUDA IPC for a GPU. Unmapped when destroyed.
class SlabMemory {
 public:
  virtual ~SlabMemory() = default;

  // Base address in this process. Memory of a GPU may be touched through its kernels::Device only.
  virtual std::byte* data() const = 0;
  virtual size_t size() const = 0;
};

}  // namespace spin::dataplane

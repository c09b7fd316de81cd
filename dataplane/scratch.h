// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// What selection needs beside the state, for one layer at a time. It belongs to whoever runs the
// kernels and is never shared: kernels trust what they find there.
namespace spin::dataplane {

class HostScratch {
 public:
  explicit HostScratch(int64_t bytes)
      : workspace_((static_cast<size_t>(bytes) + sizeof(uint64_t) - 1) / sizeof(uint64_t)) {}

  std::byte* workspace() { return reinterpret_cast<std::byte*>(workspace_.data()); }

 private:
  std::vector<uint64_t> workspace_;  // 8-byte aligned
};

}  // namespace spin::dataplane

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/select.h"

// What prediction needs beside the state, for one layer at a time. It belongs to whoever runs the
// kernels and is never shared: kernels trust what they find there.
namespace spin::dataplane {

class HostScratch {
 public:
  HostScratch(int32_t max_rows, int32_t max_blocks)
      : block_scores_(static_cast<size_t>(max_rows) * max_blocks),
        workspace_(kernels::SelectWorkspaceBytes(max_blocks) / sizeof(uint64_t)) {}

  float* block_scores() { return block_scores_.data(); }  // [max_rows][max_blocks]
  std::byte* workspace() { return reinterpret_cast<std::byte*>(workspace_.data()); }

 private:
  std::vector<float> block_scores_;
  std::vector<uint64_t> workspace_;  // 8-byte aligned
};

}  // namespace spin::dataplane

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

// Order across the two processes (sidecar executor): 64-bit words in the slab that only grow. The
// engine raises one when its scores are staged, spind the other when its lists are written
// (kernels::Device::WriteWord, WaitWord and Expect). A step that the engine went through without
// staging anything, because spind was late with the one before, is named in the third; so are all
// before it.
namespace spin::dataplane {

struct Timeline {
  uint64_t engine_done;
  uint64_t spin_done;
  uint64_t engine_skipped;
};

}  // namespace spin::dataplane

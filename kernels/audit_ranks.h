// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/host_device.h"

// Where the prediction ranked a block, as a share of the context, so that audits of contexts of
// different length add up. Rank 0 is the block that a list of one block would hold: pinned blocks
// first, then the others by block score, ties to the lower block. A list of m blocks without
// exploration holds the ranks below m.
namespace spin::kernels {

inline constexpr int32_t kRankBins = 256;

// The bin of a rank, 0 to blocks - 1: bin i holds the shares [i, i + 1) / kRankBins.
SPIN_HOST_DEVICE constexpr int32_t RankBin(int32_t rank, int32_t blocks) {
  return static_cast<int32_t>(int64_t{rank} * kRankBins / blocks);
}

}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// The inner loop of the CPU scorer: two tiles of 16 slots against all heads of one query.
//
// One kernel serves every slot of every call, and each lane keeps its order of operations: heads
// ascending, within a head dimensions ascending, one accumulator. So a slot's score has the same
// bits wherever in a call it is computed. Which kernels exist depends on the machine.
#pragma once

#include <cstdint>
#include <vector>

namespace spin::trace {

inline constexpr int kTileSlots = 16;  // slots side by side in a tile
inline constexpr int kHeadGroup = 8;   // heads side by side in a row of queries

// One number for each slot of a tile. One cache line.
struct alignas(64) Lanes {
  float lane[kTileSlots];
};

// Two dimensions of the key of each slot of a tile, as bfloat16: the even one in the low half, the
// odd one in the high half. Exact for FP8, a shift or a mask away from fp32, and half the memory
// traffic, which bounds a scan of one query that does not fit the caches.
struct alignas(64) KeyLanes {
  uint32_t pair[kTileSlots];
};

// Heads and dimensions are padded with zeros to whole groups and pairs.
struct ScoreArgs {
  const KeyLanes* k[2];     // [dim_pairs] of each tile
  const Lanes* scale[2];    // [1] of each tile
  const KeyLanes* next[2];  // [dim_pairs] of the tiles of the next call, fetched ahead; any tile
  const float* q;           // [head_groups, 2 * dim_pairs, kHeadGroup]
  const float* w;           // [head_groups, kHeadGroup]
  int dim_pairs;
  int head_groups;
};

// Writes the scores of both tiles to `z` [2]. A NaN in k, q, w or scale reaches the score.
using ScoreKernel = void (*)(const ScoreArgs& args, Lanes* z);

struct NamedScoreKernel {
  const char* name;  // of the instruction set
  ScoreKernel run;
};

// The kernels that this machine can run, fastest first; never empty. The last one, `baseline`, is
// there on every machine.
std::vector<NamedScoreKernel> RunnableScoreKernels();

}  // namespace spin::trace

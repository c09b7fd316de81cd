// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <Random123/philox.h>

#include <cstdint>

#include "kernels/host_device.h"

// The random draws of Spin: which blocks are explored and which steps are audited. Counter-based
// (Philox4x32-10), from values that every tensor-parallel rank, the CPU, the GPU and a replay
// share: nothing of a process or session enters, so all of them draw alike.
namespace spin::kernels {

// Bits of an exploration key. 11 bits make the smallest keys of a row findable with one 2048-bin
// histogram; blocks of equal key go to the lower index, which biases only the last bin taken.
inline constexpr int kExplorationKeyBits = 11;

// One Philox call yields 128 bits = the keys of eight consecutive blocks.
inline constexpr int32_t kBlocksPerDraw = 8;

// Tags in the counter's last word, which for exploration holds layer and block / 8.
inline constexpr uint32_t kAuditTag = UINT32_MAX;

struct ExplorationDraw {
  uint32_t words[4];

  // Key of the block with this index modulo kBlocksPerDraw.
  SPIN_HOST_DEVICE uint32_t Key(int32_t lane) const {
    const uint32_t half = (words[lane >> 1] >> (16 * (lane & 1))) & 0xffffu;
    return half >> (16 - kExplorationKeyBits);
  }
};

SPIN_HOST_DEVICE inline ExplorationDraw PhiloxDraw(uint64_t seed, uint64_t key_hash,
                                                   int64_t position, uint32_t tag) {
  const philox4x32_ctr_t counter = {{static_cast<uint32_t>(key_hash),
                                     static_cast<uint32_t>(key_hash >> 32),
                                     static_cast<uint32_t>(position), tag}};
  const philox4x32_key_t key = {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  const philox4x32_ctr_t out = philox4x32(counter, key);
  return {{out.v[0], out.v[1], out.v[2], out.v[3]}};
}

// Keys of the blocks [8 * group, 8 * group + 8) of one layer. `position` is the token position of
// the row's first verifier row. Layers stay below 128 and groups below 2^24, so the tag is unique.
SPIN_HOST_DEVICE inline ExplorationDraw DrawBlocks(uint64_t seed, uint64_t key_hash,
                                                   int64_t position, int32_t layer, int32_t group) {
  return PhiloxDraw(seed, key_hash, position,
                    static_cast<uint32_t>(layer) << 24 | static_cast<uint32_t>(group));
}

// Whether the step at this position is audited: all layers of a request together, so that one
// engine step is slow instead of many. Unbiased: the draw knows nothing of the scores.
SPIN_HOST_DEVICE inline bool AuditDue(uint64_t seed, uint64_t key_hash, int64_t position,
                                      uint32_t audit_every) {
  if (audit_every == 0) return false;
  const ExplorationDraw draw = PhiloxDraw(seed, key_hash, position, kAuditTag);
  return static_cast<uint64_t>(draw.words[0]) * audit_every < (uint64_t{1} << 32);
}

}  // namespace spin::kernels

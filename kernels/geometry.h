// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/host_device.h"

// The shape of a model's indexer as the kernels see it. Units: a *slot* is one indexer entry (1
// token in V3.2 and GLM-5, 4 tokens in V4), a *block* is one indexer KV page of `block` slots, a
// *page* is the unit in which Spin's own state grows.
namespace spin::kernels {

enum class Dtype : uint8_t { kF32 = 0, kBF16 = 1 };

SPIN_HOST_DEVICE constexpr int64_t DtypeBytes(Dtype dtype) { return dtype == Dtype::kF32 ? 4 : 2; }

// Slots per state page: a power of two and a multiple of every block size.
inline constexpr int32_t kPageSlots = 4096;

// What one session may ask for. The contract (proto/spin/v1) documents the same numbers.
inline constexpr int32_t kMaxLayers = 128;
inline constexpr int32_t kMaxTopk = 2048;
inline constexpr int32_t kMaxNextN = 8;  // verifier rows of one request: 1 + draft tokens
inline constexpr int32_t kMaxTokensPerSlot = 64;
inline constexpr int64_t kMaxSlots = 4 << 20;  // per request
inline constexpr int32_t kMaxPages = kMaxSlots / kPageSlots;
inline constexpr int32_t kMaxBlocks = kMaxSlots / 16;  // of the smallest blocks

struct Geometry {
  int32_t layers;           // 1 to kMaxLayers
  int32_t block;            // b: 16, 32, 64 or 128 slots
  int32_t topk;             // K: 1 to kMaxTopk
  int32_t tokens_per_slot;  // 1 to kMaxTokensPerSlot
  Dtype state;              // how V and D are stored
};

constexpr bool IsBlockSize(int32_t block) {
  return block == 16 || block == 32 || block == 64 || block == 128;
}

// Largest token position: exploration counters take 32 bits. So the divisions below are unsigned
// and narrow, because every GPU thread makes some.
inline constexpr int64_t kMaxPosition = (int64_t{1} << 32) - 16;

// The slot of a token, which is also the query's coordinate q on the distance axis.
SPIN_HOST_DEVICE constexpr int64_t QuerySlot(int64_t position, int32_t tokens_per_slot) {
  return static_cast<uint32_t>(position) / static_cast<uint32_t>(tokens_per_slot);
}

// N: the slots a query at this token position can see. A slot becomes visible with its last token.
SPIN_HOST_DEVICE constexpr int64_t VisibleSlots(int64_t position, int32_t tokens_per_slot) {
  return static_cast<uint32_t>(position + 1) / static_cast<uint32_t>(tokens_per_slot);
}

SPIN_HOST_DEVICE constexpr int32_t BlocksOf(int64_t slots, int32_t block) {
  return static_cast<int32_t>(static_cast<uint32_t>(slots + block - 1) /
                              static_cast<uint32_t>(block));
}

// What one row of a decode step (a request with its next_n verifier rows) looks at. `slots` and
// `blocks` belong to the last verifier row, which sees the most; one block list serves all rows.
struct RowExtent {
  int64_t slots;        // N
  int32_t blocks;       // B
  int32_t tail_blocks;  // blocks that hold a slot at or past N - next_n: new tokens, always kept
};

SPIN_HOST_DEVICE constexpr RowExtent ExtentOf(int64_t position, int32_t next_n,
                                              const Geometry& geometry) {
  const int64_t slots = VisibleSlots(position + next_n - 1, geometry.tokens_per_slot);
  const int64_t tail = slots > next_n ? slots - next_n : 0;
  const int32_t blocks = BlocksOf(slots, geometry.block);
  return {slots, blocks,
          blocks - static_cast<int32_t>(static_cast<uint32_t>(tail) /
                                        static_cast<uint32_t>(geometry.block))};
}

}  // namespace spin::kernels

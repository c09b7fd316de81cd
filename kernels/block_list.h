// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/host_device.h"

// The answer of Spin: per request and layer, the blocks to score. Lists are double-buffered and
// stamped; whoever finds another stamp than expected uses all blocks, so a late or half-written
// list is never used. (Lists of SelectAndCompact are for its own stream: see compact.h.)
namespace spin::kernels {

struct ListStamp {
  uint64_t epoch;       // boot epoch of the slab's owner
  uint32_t generation;  // of the request
  uint32_t next_n;      // verifier rows the list serves
  int64_t position;     // token position of the first verifier row it was made for
};

SPIN_HOST_DEVICE constexpr bool SameStamp(const ListStamp& a, const ListStamp& b) {
  return a.epoch == b.epoch && a.generation == b.generation && a.next_n == b.next_n &&
         a.position == b.position;
}

struct ListHeader {
  ListStamp stamp;
  int32_t count;      // m: blocks in the list, ascending and distinct
  int32_t blocks;     // B: blocks of the context
  int32_t pinned;     // of count: always kept (tail, optional sink)
  int32_t predicted;  // of count: best by prediction
  int32_t explored;   // of count: random
  uint32_t cut;       // a hint from the maker of the list to itself; 0: none
};

// The same list as bits, 32 blocks a word, so that a kernel finds a block's place in the list
// without a search.
struct ListMask {
  uint32_t kept;  // bit i: block 32 * word + i is in the list
  uint32_t rank;  // list entries before this word
};

SPIN_HOST_DEVICE constexpr int32_t MaskWords(int32_t blocks) { return (blocks + 31) / 32; }

// All lists of a session in the slab. `headers`, `blocks` and `masks` are indexed
// [buffer][request][layer], `blocks` with max_blocks and `masks` with MaskWords(max_blocks) entries
// each. Masks are written up to the context's last block.
struct ListTable {
  ListHeader* headers;
  int32_t* blocks;
  ListMask* masks;
  int32_t max_requests;
  int32_t layers;
  int32_t max_blocks;

  SPIN_HOST_DEVICE int64_t Index(uint32_t buffer, uint32_t request, int32_t layer) const {
    return (int64_t{buffer} * max_requests + request) * layers + layer;
  }
  SPIN_HOST_DEVICE ListHeader* Header(uint32_t buffer, uint32_t request, int32_t layer) const {
    return headers + Index(buffer, request, layer);
  }
  SPIN_HOST_DEVICE int32_t* Blocks(uint32_t buffer, uint32_t request, int32_t layer) const {
    return blocks + Index(buffer, request, layer) * max_blocks;
  }
  SPIN_HOST_DEVICE ListMask* Masks(uint32_t buffer, uint32_t request, int32_t layer) const {
    return masks + Index(buffer, request, layer) * MaskWords(max_blocks);
  }
};

}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

// The first bytes of every slab: how a client knows that it mapped the right memory.
namespace spin::dataplane {

inline constexpr uint64_t kSlabMagic = 0x42414c534e495053;  // "SPINSLAB"

// Counts every change of what lies in the slab: this header, the layout, the records of kernels/.
inline constexpr uint32_t kLayoutVersion = 4;

// All offsets into the slab are multiples of this.
inline constexpr uint64_t kSlabAlignment = 256;

struct SlabHeader {
  uint64_t magic;
  uint32_t layout_version;
  uint32_t reserved;
  uint64_t epoch;  // of the run of spind that owns the slab
  uint64_t bytes;  // of the whole slab
  uint64_t nonce;  // to be quoted in Attach: proof of having mapped this very slab
};

// Whether what was mapped is the slab that its owner told of.
constexpr bool IsSlab(const SlabHeader& header, uint64_t epoch, uint64_t bytes) {
  return header.magic == kSlabMagic && header.layout_version == kLayoutVersion &&
         header.epoch == epoch && header.bytes == bytes;
}

}  // namespace spin::dataplane

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/geometry.h"

// Where a session's arrays lie inside its region of the slab. Computed by spind alone; clients get
// the offsets (proto/spin/v1 Layout).
namespace spin::dataplane {

// Everything the size of a session's region depends on.
struct SessionShape {
  kernels::Geometry geometry;
  int64_t max_slots;      // longest context of a request
  int32_t max_requests;   // R
  int32_t max_next_n;     // D
  kernels::Dtype scores;  // element type of the staging area
  bool staging;           // sidecar executor, or drafts: scores outlive their layer

  int32_t max_blocks() const { return kernels::BlocksOf(max_slots, geometry.block); }  // M
};

// Byte offsets from the slab's base. Shapes: R = max_requests, L = layers, M = max_blocks.
struct SessionLayout {
  uint64_t records;         // RequestRecord[R]
  uint64_t counters;        // LayerCounters[L]
  uint64_t audits;          // LayerAudits[L]
  uint64_t timeline;        // uint64[3], see timeline.h
  uint64_t headers;         // ListHeader[2][R][L]
  uint64_t lists;           // int32[2][R][L][M]
  uint64_t masks;           // ListMask[2][R][L][ceil(M / 32)]
  uint64_t staging;         // scores[L][R][D][staging_stride], or 0
  uint64_t staging_stride;  // elements: M * block, or 0
  uint64_t end;             // first byte after the region
};

// Lays a region out from offset `base` (a multiple of kSlabAlignment). The shape must be within the
// documented limits; nothing overflows there.
SessionLayout LayoutAt(uint64_t base, const SessionShape& shape);

}  // namespace spin::dataplane

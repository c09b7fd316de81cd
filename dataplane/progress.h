// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "kernels/geometry.h"
#include "kernels/rows.h"

// What an executor knows of a request's history, and so which rows it may trust. Both executors
// decide here, so that they agree on every row.
namespace spin::dataplane {

// Why a row was refused. Mirrored by proto ErrorReason.
enum class RowFault {
  kNone,
  kInvalidField,    // a value is out of its range
  kPosition,        // went backward, or jumped over tokens that nobody observed
  kStaleList,       // the list that was used is not there (any more)
  kCapacity,        // the request has too little state for its context
  kUnknownRequest,  // no open request has this handle
  kClosed,          // the request was closed while the step waited
  kInternal,        // the device failed
};

struct RowVerdict {
  RowFault fault = RowFault::kNone;
  absl::string_view field;  // of the row, such as "position"; static

  bool ok() const { return fault == RowFault::kNone; }
};

using kernels::kMaxPosition;

struct Progress {
  bool warm = false;          // at least one step was observed (or inherited from a parent)
  int64_t next_position = 0;  // the first token position not yet observed; meaningful if warm
};

// May scores at [position, position + next_n) be observed? A warm request goes on exactly where it
// stopped; `resync` lets a fully scored row skip tokens that were decoded without Spin.
RowVerdict CheckScored(const Progress& progress, int64_t capacity_slots,
                       const kernels::Geometry& geometry, int64_t position, uint32_t next_n,
                       kernels::Coverage coverage, bool resync);

// May a list be made for [position, position + next_n)? Only for the step that comes next.
RowVerdict CheckNext(const Progress& progress, int64_t capacity_slots,
                     const kernels::Geometry& geometry, int64_t position, uint32_t next_n);

}  // namespace spin::dataplane

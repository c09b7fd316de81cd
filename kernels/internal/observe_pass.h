// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/host_device.h"

// How CUDA's Observe goes over a request with drafts: in passes, one after the other. Verifier rows
// that look at the same slot meet the same entries of V and D, so that two of them can share a
// pass; the first row of another slot meets D one slot further, and begins a new one.
namespace spin::kernels::internal {

struct ObservePass {
  uint32_t first;  // verifier row
  bool pair;       // the one after it belongs to the pass, too
};

// The pass of that number; `token` is that of verifier row 0 in its slot.
SPIN_HOST_DEVICE constexpr ObservePass PassOf(uint32_t token, uint32_t tokens_per_slot,
                                              uint32_t pass) {
  const uint32_t rows = tokens_per_slot - token;  // of the first slot
  const uint32_t passes = (rows + 1) / 2;
  if (pass < passes) return {2 * pass, rows - 2 * pass >= 2};
  const uint32_t later = pass - passes;
  const uint32_t passes_per_slot = (tokens_per_slot + 1) / 2;
  const uint32_t slot = later / passes_per_slot;
  const uint32_t row = 2 * (later - slot * passes_per_slot);
  return {rows + slot * tokens_per_slot + row, tokens_per_slot - row >= 2};
}

// So many passes reach all verifier rows, wherever in a slot the first of them is.
constexpr int32_t PassesFor(int32_t next_n, int32_t tokens_per_slot) {
  const auto per_slot = static_cast<uint32_t>(tokens_per_slot);
  int32_t most = 0;
  for (uint32_t token = 0; token < per_slot; ++token) {
    int32_t passes = 0;
    while (PassOf(token, per_slot, static_cast<uint32_t>(passes)).first <
           static_cast<uint32_t>(next_n)) {
      ++passes;
    }
    most = std::max(most, passes);
  }
  return most;
}

}  // namespace spin::kernels::internal

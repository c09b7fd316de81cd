// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

// What the kernels count, per layer, in the slab. All are totals that only grow, added with relaxed
// atomics; whoever exposes them takes differences and distrusts a value that went backward.
namespace spin::kernels {

struct LayerCounters {
  uint64_t considered_blocks;   // B, summed over steps
  uint64_t predicted_blocks;    // blocks scored because the prediction ranked them best
  uint64_t explored_blocks;     // ... because they were drawn at random
  uint64_t pinned_blocks;       // ... because they hold new tokens (or are the sink)
  uint64_t full_blocks;         // ... because the row was scored in full (cold, audit, fallback)
  uint64_t scored_slots;        // scores that came back
  uint64_t nonfinite_scores;    // of those, NaN, Inf or too large for the state: ignored
  uint64_t audited_rows;        // verifier rows that were audited
  uint64_t audit_topk_slots;    // true top-K slots in audited rows
  uint64_t audit_missed_slots;  // of those, slots whose block the prediction had left out
};

}  // namespace spin::kernels

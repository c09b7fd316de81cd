// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/audit_ranks.h"
#include "kernels/host_device.h"

// What audits find out about a layer beyond LayerCounters, in the slab: enough for a miss-versus-
// budget curve and for a p99. Totals that only grow, like the counters.
namespace spin::kernels {

inline constexpr int32_t kMissBuckets = 11;

// Upper bound of a bucket of a row's miss, in thousandths; the bound itself belongs to the bucket.
SPIN_HOST_DEVICE constexpr int32_t MissBound(int32_t bucket) {
  constexpr int32_t bounds[kMissBuckets] = {0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};
  return bounds[bucket];
}

struct LayerAudits {
  uint64_t blocks;                   // B, summed over audited rows
  uint64_t list_blocks;              // blocks of the lists that would have been used
  uint64_t miss_rows[kMissBuckets];  // audited rows by miss, not cumulative
  uint64_t rank_slots[kRankBins];    // true top-K slots by the rank of their block (audit_ranks.h)
};

// The bucket of a row that missed `missed` of `topk` slots; topk is at least 1.
SPIN_HOST_DEVICE constexpr int32_t MissBucket(int32_t missed, int32_t topk) {
  int32_t bucket = 0;
  while (bucket < kMissBuckets - 1 && int64_t{missed} * 1000 > int64_t{MissBound(bucket)} * topk) {
    ++bucket;
  }
  return bucket;
}

}  // namespace spin::kernels

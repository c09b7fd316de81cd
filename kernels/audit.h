// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/binding.h"
#include "kernels/block_list.h"
#include "kernels/counters.h"
#include "kernels/geometry.h"
#include "kernels/layer_audits.h"
#include "kernels/rows.h"
#include "kernels/state.h"

// Audit: for rows that were scored in full, how much of the true top-K the prediction that would
// have been used had left out. Runs before observe. Every accepted verifier row counts min(K, N)
// top-K slots; ties go to the lower slot, NaN ranks below everything. The list is found by its
// stamp; rows without one (coverage kKept, or another stamp) are skipped. Adds to the counters, and
// where asked to the audits; writes per-row results where asked.
//
// The ranks in the audits are those of all blocks by the prediction that the state makes for the
// row's step, which is the one its list was made from: nothing was observed since.
namespace spin::kernels {

struct AuditResult {
  int32_t topk;    // true top-K slots over the accepted verifier rows
  int32_t missed;  // of those, outside the list
};

struct AuditParams {
  Geometry geometry;
  StateView state;
  LayerRange layers;
  const ScoredRow* rows;  // [row_count]
  int32_t row_count;
  uint64_t epoch;
  ListTable lists;
  ScoreView scores;
  LayerCounters* counters;  // [geometry.layers]
  LayerAudits* audits;      // [geometry.layers], or null
  std::byte* workspace;     // Device::AuditWorkspaceBytes, 8-byte aligned; null without audits
  AuditResult* results;     // out [geometry.layers][row_count], or null
  const Binding* binding;   // or null: see binding.h
};

constexpr int64_t AuditWorkspaceBytesCpu(int32_t max_blocks) { return 12 * int64_t{max_blocks}; }

void AuditCpu(const AuditParams& params);

}  // namespace spin::kernels

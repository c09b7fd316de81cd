// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

#include "dataplane/layout.h"
#include "dataplane/timeline.h"
#include "kernels/block_list.h"
#include "kernels/counters.h"
#include "kernels/geometry.h"
#include "kernels/layer_audits.h"
#include "kernels/rows.h"
#include "kernels/state.h"

// One session's arrays in a mapped slab, typed. A view: owns nothing, valid as long as the mapping.
namespace spin::dataplane {

struct SessionView {
  SessionShape shape;
  uint64_t epoch;                    // of the slab's owner; part of every stamp
  std::byte* slab;                   // base of the mapping in this process
  kernels::RequestRecord* records;   // [max_requests]; spind's own view has a private copy
  kernels::LayerCounters* counters;  // [layers]
  kernels::LayerAudits* audits;      // [layers]
  Timeline* timeline;
  kernels::ListTable lists;
  std::byte* staging;      // or null
  int64_t staging_stride;  // elements

  kernels::StateView state() const { return {slab, records}; }

  // The staging area as the kernels take it.
  kernels::ScoreView staged_scores() const;

  // First staged element of a verifier row.
  std::byte* StagedRow(int32_t layer, int32_t row, int32_t draft) const;

  // The stamp a list of this request for this step must carry.
  kernels::ListStamp StampFor(uint32_t generation, int64_t position, uint32_t next_n) const {
    return {epoch, generation, next_n, position};
  }
};

SessionView ViewOf(std::byte* slab, uint64_t epoch, const SessionShape& shape,
                   const SessionLayout& layout);

}  // namespace spin::dataplane

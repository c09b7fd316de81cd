// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/block_list.h"
#include "kernels/counters.h"
#include "kernels/ema.h"
#include "kernels/host_device.h"
#include "kernels/layer_audits.h"
#include "kernels/state.h"

// For launches that are captured in a graph: what may change between two replays beside the rows. A
// session that was opened anew lies elsewhere, while the addresses in the graph stay. Parameters
// that name a binding (memory of the device, written by the stream before the launch) take these
// values from there when they run; their own are ignored.
namespace spin::kernels {

struct Binding {
  std::byte* slab;
  const RequestRecord* records;
  LayerCounters* counters;
  LayerAudits* audits;
  ListHeader* headers;
  int32_t* blocks;
  ListMask* masks;
  uint64_t epoch;
  EmaWeights weights;
  std::byte* staging;  // or null: nothing is staged
};

// Parameters as they are when the launch runs. With BoundLists lists and epoch come from the
// binding, with Bound also the state, with BoundToCount also the counters, with BoundToAudit also
// the audits if the parameters name some, with BoundToObserve also the weights.
template <typename Params>
SPIN_HOST_DEVICE inline Params BoundLists(const Params& params) {
  Params out = params;
  if (const Binding* const to = params.binding) {
    out.lists.headers = to->headers;
    out.lists.blocks = to->blocks;
    out.lists.masks = to->masks;
    out.epoch = to->epoch;
  }
  return out;
}

template <typename Params>
SPIN_HOST_DEVICE inline Params Bound(const Params& params) {
  Params out = BoundLists(params);
  if (const Binding* const to = params.binding) out.state = {to->slab, to->records};
  return out;
}

template <typename Params>
SPIN_HOST_DEVICE inline Params BoundToCount(const Params& params) {
  Params out = Bound(params);
  if (params.binding) out.counters = params.binding->counters;
  return out;
}

template <typename Params>
SPIN_HOST_DEVICE inline Params BoundToAudit(const Params& params) {
  Params out = BoundToCount(params);
  if (params.binding && params.audits) out.audits = params.binding->audits;
  return out;
}

template <typename Params>
SPIN_HOST_DEVICE inline Params BoundToObserve(const Params& params) {
  Params out = BoundToCount(params);
  if (params.binding) out.weights = params.binding->weights;
  return out;
}

}  // namespace spin::kernels

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/layout.h"

#include "dataplane/slab_header.h"
#include "dataplane/timeline.h"
#include "kernels/block_list.h"
#include "kernels/counters.h"
#include "kernels/layer_audits.h"
#include "kernels/state.h"

namespace spin::dataplane {
namespace {

// Hands out consecutive aligned pieces.
class Cursor {
 public:
  explicit Cursor(uint64_t base) : at_(base) {}

  uint64_t Take(uint64_t bytes) {
    const uint64_t begin = at_;
    at_ += (bytes + kSlabAlignment - 1) / kSlabAlignment * kSlabAlignment;
    return begin;
  }
  uint64_t at() const { return at_; }

 private:
  uint64_t at_;
};

}  // namespace

SessionLayout LayoutAt(uint64_t base, const SessionShape& shape) {
  const uint64_t layers = shape.geometry.layers;
  const uint64_t requests = shape.max_requests;
  const uint64_t blocks = shape.max_blocks();
  Cursor cursor(base);
  SessionLayout layout = {};
  layout.records = cursor.Take(requests * sizeof(kernels::RequestRecord));
  layout.counters = cursor.Take(layers * sizeof(kernels::LayerCounters));
  layout.audits = cursor.Take(layers * sizeof(kernels::LayerAudits));
  layout.timeline = cursor.Take(sizeof(Timeline));
  layout.headers = cursor.Take(2 * requests * layers * sizeof(kernels::ListHeader));
  layout.lists = cursor.Take(2 * requests * layers * blocks * sizeof(int32_t));
  layout.masks = cursor.Take(2 * requests * layers * kernels::MaskWords(shape.max_blocks()) *
                             sizeof(kernels::ListMask));
  if (shape.staging) {
    layout.staging_stride = blocks * shape.geometry.block;
    layout.staging = cursor.Take(layers * requests * shape.max_next_n * layout.staging_stride *
                                 kernels::DtypeBytes(shape.scores));
  }
  layout.end = cursor.at();
  return layout;
}

}  // namespace spin::dataplane

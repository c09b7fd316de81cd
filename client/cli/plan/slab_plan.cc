// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/plan/slab_plan.h"

#include "dataplane/slab_header.h"
#include "kernels/state.h"

namespace spin::cli {

SlabPlan PlanSlab(const dataplane::SessionShape& shape) {
  const dataplane::SessionLayout layout = dataplane::LayoutAt(dataplane::kSlabAlignment, shape);
  const uint64_t page = kernels::PageBytes(shape.geometry);
  const uint64_t requests = shape.max_requests;
  SlabPlan plan;
  plan.state = requests * kernels::PagesFor(shape.max_slots) * page;
  plan.staging = shape.staging ? layout.end - layout.staging : 0;
  plan.lists = (shape.staging ? layout.staging : layout.end) - layout.headers;
  // A page for each request that has closed and may not be handed out yet.
  plan.other = layout.headers + requests * page;
  return plan;
}

}  // namespace spin::cli

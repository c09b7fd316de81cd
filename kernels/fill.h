// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/geometry.h"

// Fill: makes fresh pages unobserved, so that neither history nor data of an earlier owner is left.
namespace spin::kernels {

struct FillParams {
  Geometry geometry;
  std::byte* slab;
  const uint32_t*
      pages;  // [page_count] offsets in kPageOffsetUnit; host memory, read during the call
  int32_t page_count;
  bool zero_init;  // fill with 0 instead of -infinity
};

void FillCpu(const FillParams& params);

}  // namespace spin::kernels

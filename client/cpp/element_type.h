// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/geometry.h"
#include "spin/options.h"

namespace spin::internal {

inline kernels::Dtype DtypeOf(ElementType type) {
  return type == ElementType::kFloat32 ? kernels::Dtype::kF32 : kernels::Dtype::kBF16;
}

}  // namespace spin::internal

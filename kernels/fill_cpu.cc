// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/fill.h"

#include <algorithm>

#include "kernels/ema.h"
#include "kernels/state.h"

namespace spin::kernels {
namespace {

template <typename T>
void FillPages(const FillParams& p) {
  const T value = FromFloat<T>(p.zero_init ? 0.0f : kUnobserved);
  for (int32_t i = 0; i < p.page_count; ++i) {
    T* page = reinterpret_cast<T*>(p.slab + uint64_t{p.pages[i]} * kPageOffsetUnit);
    std::fill_n(page, PageBytes(p.geometry) / DtypeBytes(p.geometry.state), value);
  }
}

}  // namespace

void FillCpu(const FillParams& p) {
  if (p.geometry.state == Dtype::kF32) {
    FillPages<float>(p);
  } else {
    FillPages<Bf16>(p);
  }
}

}  // namespace spin::kernels

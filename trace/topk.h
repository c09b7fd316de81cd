// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// The indices of the k largest scores, exactly and with a defined answer for every input.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace spin::trace {

// Writes the indices of the k largest of `scores` to the front of `top`, ascending by index, and
// returns how many: min(k, scores.size()), 0 for k <= 0.
//
// Ties go to the lower index; -0 and +0 tie. A NaN ranks below -infinity, NaNs tie; they are taken
// only where k asks for more than there are numbers.
//
// Allocates nothing. `workspace` needs scores.size() elements, `top` as many as are returned; the
// three must not overlap. A radix select: linear in scores.size(), whatever the values.
int TopK(absl::Span<const float> scores, int k, absl::Span<int32_t> workspace,
         absl::Span<int32_t> top);

}  // namespace spin::trace

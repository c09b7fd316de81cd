// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Mean and percentile of a set of measurements, as numpy gives them by default.
#pragma once

#include "absl/types/span.h"

namespace spin::trace {

// NaN for no values, and where a value is NaN. Sums in double, in order.
double Mean(absl::Span<const double> values);
double Mean(absl::Span<const float> values);

// Interpolates linearly between the two nearest of the sorted values (numpy's `linear`): rank
// (n - 1) * percent / 100. `percent` is clamped to [0, 100]. NaN for no values, for a NaN percent,
// and where a value is NaN. Values need no order; a copy is sorted, so not for a decode loop.
double Percentile(absl::Span<const double> values, double percent);
double Percentile(absl::Span<const float> values, double percent);

}  // namespace spin::trace

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "calibration/miss_curve.h"

// Budgets for each layer from the layers' miss curves. Layers differ by orders of magnitude in how
// predictable they are, so the same number of blocks is better spent unequally: it goes, bit by
// bit, to the layer where it avoids the most misses (greedy marginal gain, over the concave hull of
// each curve, so a layer whose gain comes late is not overlooked).
//
// All functions here are pure and deterministic. Sparsity is rho, the share of a layer's blocks to
// skip, as kernels::Policy has it; totals and misses are means over the layers. All of them refuse
// an empty list of curves, and numbers outside of their range, with INVALID_ARGUMENT that names the
// argument.
namespace spin::calibration {

struct AllocationLimits {
  // No layer keeps less than this share of its blocks, in [0, 1]. Give ceil(K / b) / B, below which
  // a list never goes, or the total comes out lower than promised. At least 1 / kRankBins.
  double min_keep = 0;
  // gamma of the policy that the budgets are for, in [0, 1].
  double exploration = 0;
};

struct Allocation {
  std::vector<double> sparsity;  // [layers] rho of each layer, in [0, 1)
  double total_sparsity = 0;     // their mean
  double expected_miss = 0;      // mean over the layers, by the curves
};

// The least miss at a total. `total_sparsity` in [0, 1); where min_keep forbids it, the highest
// total there is.
absl::StatusOr<Allocation> AllocateAtSparsity(absl::Span<const MissCurve> layers,
                                              double total_sparsity,
                                              const AllocationLimits& limits);

// The highest total whose expected miss is at most `target_miss`, in [0, 1].
absl::StatusOr<Allocation> AllocateAtMiss(absl::Span<const MissCurve> layers, double target_miss,
                                          const AllocationLimits& limits);

// The same sparsity for all layers, as a policy without per-layer budgets has it: what the two
// above are to be compared with.
absl::StatusOr<Allocation> UniformAtSparsity(absl::Span<const MissCurve> layers,
                                             double total_sparsity, const AllocationLimits& limits);
absl::StatusOr<Allocation> UniformAtMiss(absl::Span<const MissCurve> layers, double target_miss,
                                         const AllocationLimits& limits);

// Mean miss over the layers if layer l skips sparsity[l].
double ExpectedMiss(absl::Span<const MissCurve> layers, absl::Span<const double> sparsity,
                    double exploration);

// Each curve with `prior_slots` more slots, distributed as those of all layers together. With few
// audits behind the curves the layers come out alike, and a layer that happened to miss nothing in
// them is not cut to the bone; with many, the prior no longer counts.
std::vector<MissCurve> Shrunk(absl::Span<const MissCurve> layers, double prior_slots);

}  // namespace spin::calibration

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// From what layers missed on some texts to what they are expected to miss on the next one.
//
// A layer's curve has a knee: below some budget it misses a lot at once. Texts differ in where the
// knee is, so the mean of their curves says too little of the next text, whose knee may be further
// up: budgets end up just above the knees that were seen. Here a layer's curve is the expectation
// over where its knee may be. Keep shares at which a layer misses equally much are taken as
// normally distributed over texts in log-odds (a few texts show mean and variance of that; a share
// stays in [0, 1]), and the variance is that of a text that was not seen: s^2 (1 + 1/n).
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "calibration/miss_curve.h"
#include "prediction/layer_curves.h"

namespace spin::prediction {

// s: how much texts differ, in log-odds of the keep share at equal miss. Over all layers, and
// misses of 0.1 to 20 %. What these traces show counts as much as there are traces beside the
// first; the rest is kTypicalSpread, for a single trace all of it.
double SpreadOfTexts(absl::Span<const LayerCurves* const> traces);

// What three kinds of text showed, two by two, with K = 128, 512 and 2048: 0.23 to 0.37.
inline constexpr double kTypicalSpread = 0.3;

// For each layer the curve to expect of a text like the traces', for calibration::Allocate...: it
// falls as more is kept. With a spread of 0 and one trace, what was measured.
std::vector<calibration::MissCurve> ExpectedCurves(absl::Span<const LayerCurves* const> traces,
                                                   double spread);

}  // namespace spin::prediction

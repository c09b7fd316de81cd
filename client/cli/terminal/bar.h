// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/types/span.h"

// Shares drawn with characters: block elements where the terminal has UTF-8, else ASCII.
namespace spin::cli {

// A horizontal bar of `width` columns. The share is clamped to [0, 1]; NaN draws an empty bar.
std::string Bar(double share, int width, bool unicode);

// One column for each share, its height by the share of `full`: levels 1 to 8, or digits 0 to 9.
// Anything above nothing shows at least the lowest level; NaN shows as a blank.
std::string Columns(absl::Span<const double> shares, double full, bool unicode);

}  // namespace spin::cli

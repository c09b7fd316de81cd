// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/terminal/bar.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace spin::cli {
namespace {

constexpr const char* kLevels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

double Clamped(double share) { return std::isnan(share) ? 0 : std::clamp(share, 0.0, 1.0); }

std::string Level(double share, bool unicode) {
  if (unicode) return kLevels[std::min(7, static_cast<int>(share * 8))];
  const int least = share > 0 ? 1 : 0;
  return absl::StrCat(std::max(least, std::min(9, static_cast<int>(share * 10))));
}

}  // namespace

std::string Bar(double share, int width, bool unicode) {
  const int full = static_cast<int>(std::lround(Clamped(share) * width));
  std::string bar;
  for (int c = 0; c < width; ++c) {
    absl::StrAppend(&bar, c < full ? (unicode ? "█" : "#") : (unicode ? "░" : "."));
  }
  return bar;
}

std::string Columns(absl::Span<const double> shares, double full, bool unicode) {
  std::string columns;
  for (const double share : shares) {
    columns += std::isnan(share) ? " " : Level(Clamped(full > 0 ? share / full : 0), unicode);
  }
  return columns;
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/terminal/numbers.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace spin::cli {

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1023.95 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string FormatCount(uint64_t count) {
  const std::string digits = absl::StrCat(count);
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped.push_back(',');
    grouped.push_back(digits[i]);
  }
  return grouped;
}

std::string FormatPercent(double share, int digits) {
  if (!std::isfinite(share)) return "-";
  return absl::StrFormat("%.*f %%", digits, 100 * share);
}

std::string FormatMicros(double micros) {
  if (!std::isfinite(micros)) return "-";
  if (micros < 1e3) return absl::StrFormat("%.1f us", micros);
  if (micros < 1e6) return absl::StrFormat("%.2f ms", micros / 1e3);
  return absl::StrFormat("%.2f s", micros / 1e6);
}

std::string FormatAge(absl::Duration age) {
  const int64_t seconds = absl::ToInt64Seconds(age);
  const int64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
  if (seconds < 0) return "0s";
  if (minutes == 0) return absl::StrCat(seconds, "s");
  if (hours == 0) return absl::StrFormat("%dm %02ds", minutes, seconds % 60);
  if (days == 0) return absl::StrFormat("%dh %02dm", hours, minutes % 60);
  return absl::StrFormat("%dd %02dh", days, hours % 24);
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

// Numbers as people read them. JSON output never goes through here.
namespace spin::cli {

std::string FormatBytes(uint64_t bytes);              // "512 B", "12.5 MiB"
std::string FormatCount(uint64_t count);              // "1,234,567"
std::string FormatPercent(double share, int digits);  // 0.398 -> "39.8 %"; NaN -> "-"
std::string FormatMicros(double micros);              // "41.2 us", "3.14 ms", "2.50 s"
std::string FormatAge(absl::Duration age);            // "45s", "3m 12s", "5h 03m", "2d 04h"

}  // namespace spin::cli

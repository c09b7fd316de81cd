// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/report.h"

namespace spin::cli {

QualityMeter ReplayReport::Total() const {
  QualityMeter total;
  for (const QualityMeter& layer : played.layers) total.Add(layer);
  return total;
}

uint64_t ReplayReport::UnexpectedFallbacks() const {
  uint64_t rows = 0;
  for (int r = 0; r < kReasonCount; ++r) {
    if (IsFallback(static_cast<Reason>(r))) rows += client.rows_by_reason[r];
  }
  const bool cold_start = client.rows_by_reason[static_cast<int>(Reason::kCold)] > 0;
  return rows - (cold_start ? 1 : 0);
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/report.h"

#include <algorithm>

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
  const uint64_t cold = client.rows_by_reason[static_cast<int>(Reason::kCold)];
  return rows - std::min<uint64_t>(cold, played.requests.size());
}

}  // namespace spin::cli

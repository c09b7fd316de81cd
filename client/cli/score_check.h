// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "trace/score_count.h"

namespace spin::cli {

// Counts a trace's scores, of its first `steps` steps, and warns on stderr, as `command`, of those
// that are NaN or infinite.
absl::StatusOr<trace::ScoreCount> CheckScores(const std::string& command, const std::string& path,
                                              const trace::Trace& trace, int steps);

}  // namespace spin::cli

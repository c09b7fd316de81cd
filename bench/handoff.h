// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"

// The parts of handoff_bench, each against a spind that runs already.
namespace spin::bench {

double Median(std::vector<double> values);

// Medians of one call after the other over one connection, in microseconds.
struct RpcTimes {
  double empty_us;  // grpc.health.v1.Health/Check
  double step_us;   // a Step of `rows` rows and 21 layers, all but the kernels: drafts that wait
};
absl::StatusOr<RpcTimes> MeasureRpcs(const cli::Connection& connection, int rows);

// How long it takes from nothing to a session that is ready, in milliseconds.
struct OpenTimes {
  double first_ms;   // of this process; on a GPU with the driver's start and the loading of kernels
  double second_ms;  // while the first is open
};
absl::StatusOr<OpenTimes> MeasureOpens(const std::string& socket, const std::string& device_uuid);

struct HandoffShape {
  int64_t slots = 131072;
  int requests = 8;
  int layers = 21;
  double sparsity = 0.4;
  int steps = 200;
};

// Medians over steps on the engine's stream, in microseconds.
struct HandoffTimes {
  double kernels_us;         // inline executor: Observe and Select
  double between_inline_us;  // ... from there to the next step
  double stage_us;           // sidecar executor: Stage
  double between_us;         // ... from there to the next step: spind's kernels and the hand-over
  double sparse_share;       // sidecar executor: rows that used their lists
  // What the sidecar executor costs beside the kernels and the copy of the scores.
  double handoff_us() const { return between_us - between_inline_us - kernels_us; }
};
absl::StatusOr<HandoffTimes> MeasureHandoff(const std::string& socket,
                                            const std::string& device_uuid,
                                            const HandoffShape& shape);

}  // namespace spin::bench

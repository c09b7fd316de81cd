// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// The string metadata of a trace file as numbers. Used by trace.cc only.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "trace/safetensors.h"

namespace spin::trace {

struct TraceMetadata {
  int first_query = 0;             // query position of step 0, in slots
  int steps = 0;                   // non-negative, as first_query
  std::vector<int> layer_numbers;  // the model's own, ascending, at least one
};

// INVALID_ARGUMENT, naming the file and the entry: `first_query`, `steps` or `layers` is missing or
// not of the right form, or `format` is there and of another version.
absl::StatusOr<TraceMetadata> ReadTraceMetadata(const SafetensorsFile& file);

}  // namespace spin::trace

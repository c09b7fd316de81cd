// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// The JSON header of a safetensors file, checked in full. Used by safetensors.cc only.
//
//     {"__metadata__": {"any": "string"},
//      "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trace/safetensors_entry.h"

namespace spin::trace {

struct SafetensorsHeader {
  std::map<std::string, std::string, std::less<>> metadata;
  std::map<std::string, TensorEntry, std::less<>> tensors;
};

// The dtypes that a reader needs, by the names of tensors. Other tensors may be of any.
using ExpectedDtypes = std::map<std::string, std::string, std::less<>>;

// `data_bytes`: what follows the header in the file. On success every tensor's offsets lie within
// and match its dtype and shape.
//
// INVALID_ARGUMENT for all else, in one sentence that names the tensor and the field. Reads the
// text once, without recursion, so no header can exhaust the stack.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text, int64_t data_bytes,
                                                         const ExpectedDtypes& expected);

}  // namespace spin::trace

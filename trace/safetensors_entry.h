// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// One tensor's entry in the header of a safetensors file, and how it is shown in messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spin::trace {

struct TensorEntry {
  std::string dtype;                  // F8_E4M3, F32, ...
  std::vector<int64_t> shape;         // row-major, non-negative; empty for a scalar
  std::vector<int64_t> data_offsets;  // begin and end in bytes, within the data after the header
};

// What is wrong with an entry, or "": the dtype must be known, the size must not overflow, and the
// offsets must span that size within the `data_bytes` that the file has.
std::string EntryFault(const TensorEntry& entry, int64_t data_bytes);

// "[4, 8192, 64]"
std::string ListText(const std::vector<int64_t>& numbers);

// A string from a file: quoted, escaped, shortened.
std::string Quoted(absl::string_view text);

}  // namespace spin::trace

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// A strict reader of the safetensors container: named tensors behind a JSON header.
//
//     8 bytes   length of the header, little-endian
//     header    JSON: dtype, shape and place of each tensor; string metadata
//     data      tensors, row-major, little-endian
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trace/mapped_file.h"
#include "trace/safetensors_header.h"

namespace spin::trace {

struct Tensor {
  std::string dtype;                // as the file spells it: F8_E4M3, F32, ...
  std::vector<int64_t> shape;       // empty for a scalar
  absl::Span<const uint8_t> bytes;  // in the file's mapping, at any alignment; copy to use as T
};

// Move-only. Tensors are views that live as long as this object.
class SafetensorsFile {
 public:
  // Maps the file and checks all of the header, so that every tensor can be read afterwards, and
  // those that are `expected` have their dtype. They may still be missing.
  //
  // NOT_FOUND: no such file. INVALID_ARGUMENT: everything else. The message names the path, the
  // tensor and the field.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path,
                                              const ExpectedDtypes& expected = {});

  // Null if there is no such tensor.
  const Tensor* Find(absl::string_view name) const;

  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }

 private:
  SafetensorsFile(const std::string& path, MappedFile file, SafetensorsHeader header,
                  int64_t data_start);

  std::string path_;
  MappedFile file_;
  std::map<std::string, std::string, std::less<>> metadata_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

}  // namespace spin::trace

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// A regular file as read-only memory.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace spin::trace {

// Owns the mapping; spans into it are valid as long as this object or one it was moved to lives.
// The file must not shrink meanwhile: reading past its new end kills the process (SIGBUS).
class MappedFile {
 public:
  // NOT_FOUND: no such file. INVALID_ARGUMENT: it cannot be read, or is no regular file. Messages
  // start with the path.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const uint8_t> bytes() const { return bytes_; }

 private:
  explicit MappedFile(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  absl::Span<const uint8_t> bytes_;  // empty: nothing is mapped
};

}  // namespace spin::trace

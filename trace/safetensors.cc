// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/safetensors.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace spin::trace {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

absl::Status NotSafetensors(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("not a safetensors file: ", why));
}

uint64_t LittleEndian(absl::Span<const uint8_t> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) value |= uint64_t{bytes[i]} << (8 * i);
  return value;
}

// The JSON text; data follow it immediately.
absl::StatusOr<absl::string_view> HeaderText(absl::Span<const uint8_t> file) {
  if (file.size() < kLengthBytes) {
    return NotSafetensors(absl::StrCat(file.size(), " bytes hold no header length"));
  }
  const uint64_t length = LittleEndian(file);
  if (length > kMaxHeaderBytes) {
    return NotSafetensors(
        absl::StrCat("a header of ", length, " bytes, more than ", kMaxHeaderBytes));
  }
  if (length > file.size() - kLengthBytes) {
    return NotSafetensors(absl::StrCat("a header of ", length, " bytes in a file of ", file.size(),
                                       "; is it truncated?"));
  }
  const absl::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  if (text.empty() || text[0] != '{') return NotSafetensors("its header is no JSON object");
  return text;
}

absl::Status AtPath(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path,
                                                      const ExpectedDtypes& expected) {
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<absl::string_view> text = HeaderText(file->bytes());
  if (!text.ok()) return AtPath(path, text.status());
  const int64_t data_start = static_cast<int64_t>(kLengthBytes + text->size());
  const int64_t data_bytes = static_cast<int64_t>(file->bytes().size()) - data_start;
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(*text, data_bytes, expected);
  if (!header.ok()) return AtPath(path, header.status());
  return SafetensorsFile(path, *std::move(file), *std::move(header), data_start);
}

SafetensorsFile::SafetensorsFile(const std::string& path, MappedFile file, SafetensorsHeader header,
                                 int64_t data_start)
    : path_(path), file_(std::move(file)), metadata_(std::move(header.metadata)) {
  const absl::Span<const uint8_t> data = file_.bytes().subspan(data_start);
  for (auto& [name, entry] : header.tensors) {
    const int64_t begin = entry.data_offsets[0];
    const int64_t end = entry.data_offsets[1];
    tensors_[name] = {entry.dtype, std::move(entry.shape), data.subspan(begin, end - begin)};
  }
}

const Tensor* SafetensorsFile::Find(absl::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace spin::trace

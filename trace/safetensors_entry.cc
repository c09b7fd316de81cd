// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/safetensors_entry.h"

#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace spin::trace {
namespace {

constexpr size_t kShownCharacters = 64;

constexpr struct {
  absl::string_view name;
  int64_t bytes;
} kDtypes[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
               {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
               {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8}};

// 0 for an unknown dtype.
int64_t DtypeBytes(absl::string_view name) {
  for (const auto& dtype : kDtypes) {
    if (dtype.name == name) return dtype.bytes;
  }
  return 0;
}

// False where the size overflows.
bool SizeInBytes(const TensorEntry& entry, int64_t* bytes) {
  *bytes = DtypeBytes(entry.dtype);
  for (const int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(*bytes, extent, bytes)) return false;
  }
  return true;
}

}  // namespace

std::string EntryFault(const TensorEntry& entry, int64_t data_bytes) {
  if (DtypeBytes(entry.dtype) == 0) return absl::StrCat("unknown dtype ", Quoted(entry.dtype));
  int64_t bytes = 0;
  if (!SizeInBytes(entry, &bytes)) {
    return absl::StrCat("shape ", ListText(entry.shape), " is too large");
  }
  const std::vector<int64_t>& offsets = entry.data_offsets;
  const std::string field = absl::StrCat("data_offsets ", ListText(offsets));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return absl::StrCat(field, ", expected [begin, end]");
  }
  if (offsets[1] > data_bytes) {
    return absl::StrCat(field, " end after the file's ", data_bytes,
                        " bytes of data; is the file truncated?");
  }
  if (offsets[1] - offsets[0] != bytes) {
    return absl::StrCat(field, " do not span the ", bytes, " bytes of ", entry.dtype, " ",
                        ListText(entry.shape));
  }
  return "";
}

std::string ListText(const std::vector<int64_t>& numbers) {
  return absl::StrCat("[", absl::StrJoin(numbers, ", "), "]");
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kShownCharacters)),
                      text.size() > kShownCharacters ? "..." : "", "\"");
}

}  // namespace spin::trace

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/trace_metadata.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "trace/safetensors_entry.h"

namespace spin::trace {
namespace {

constexpr absl::string_view kFormat = "spin-trace/1";

// Null if there is no such entry.
const std::string* FindEntry(const SafetensorsFile& file, absl::string_view name) {
  const auto found = file.metadata().find(name);
  return found == file.metadata().end() ? nullptr : &found->second;
}

absl::Status Fault(const SafetensorsFile& file, absl::string_view name,
                   absl::string_view expected) {
  const std::string* text = FindEntry(file, name);
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), ": metadata \"", name, "\"", text == nullptr ? " is missing" : ": ",
                   text == nullptr ? "" : Quoted(*text), ", expected ", expected));
}

absl::Status CheckFormat(const SafetensorsFile& file) {
  const std::string* text = FindEntry(file, "format");
  if (text == nullptr || *text == kFormat) return absl::OkStatus();
  return Fault(file, "format", Quoted(kFormat));
}

absl::Status ReadInt(const SafetensorsFile& file, absl::string_view name, int* value) {
  const std::string* text = FindEntry(file, name);
  if (text != nullptr && absl::SimpleAtoi(*text, value) && *value >= 0) return absl::OkStatus();
  return Fault(file, name, "a non-negative integer");
}

// Non-negative numbers in brackets, ascending; empty for anything else.
std::vector<int> AscendingList(absl::string_view text) {
  std::vector<int> numbers;
  if (!absl::ConsumePrefix(&text, "[") || !absl::ConsumeSuffix(&text, "]")) return {};
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const int previous = numbers.empty() ? -1 : numbers.back();
    int number = 0;
    if (!absl::SimpleAtoi(part, &number) || number <= previous) return {};
    numbers.push_back(number);
  }
  return numbers;
}

absl::Status ReadLayers(const SafetensorsFile& file, std::vector<int>* numbers) {
  const std::string* text = FindEntry(file, "layers");
  if (text != nullptr) *numbers = AscendingList(*text);
  if (!numbers->empty()) return absl::OkStatus();
  return Fault(file, "layers", "the model's layer numbers, ascending, such as \"[0, 4, 8]\"");
}

}  // namespace

absl::StatusOr<TraceMetadata> ReadTraceMetadata(const SafetensorsFile& file) {
  TraceMetadata metadata;
  absl::Status status = CheckFormat(file);
  status.Update(ReadInt(file, "first_query", &metadata.first_query));
  status.Update(ReadInt(file, "steps", &metadata.steps));
  status.Update(ReadLayers(file, &metadata.layer_numbers));
  if (!status.ok()) return status;
  return metadata;
}

}  // namespace spin::trace

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/safetensors_header.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace spin::trace {
namespace {

constexpr absl::string_view kMetadataName = "__metadata__";
constexpr size_t kMaxRank = 8;

// Takes the events of nlohmann's parser; false ends the parse. No exceptions, no tree: a header of
// the wrong form is refused where it first deviates, nesting included.
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderEvents(int64_t data_bytes, const ExpectedDtypes& expected)
      : data_bytes_(data_bytes), expected_(expected) {}

  SafetensorsHeader header;
  std::string error;  // set once an event returned false

  bool start_object(size_t) override {
    if (level_ == Level::kFile) return Enter(Level::kRoot);
    if (level_ != Level::kRoot) return Unexpected("an object");
    tensor_ = TensorEntry();
    fields_.clear();
    return Enter(name_ == kMetadataName ? Level::kMetadata : Level::kTensor);
  }

  bool key(std::string& key) override {
    if (level_ == Level::kTensor && key != "dtype" && key != "shape" && key != "data_offsets") {
      return Fail(absl::StrCat("unknown field ", Quoted(key)));
    }
    std::set<std::string>& seen = level_ == Level::kRoot ? names_ : fields_;
    if (!seen.insert(key).second) return Fail(absl::StrCat(Quoted(key), " is there twice"));
    (level_ == Level::kRoot ? name_ : field_) = key;
    return true;
  }

  bool string(std::string& value) override {
    if (level_ == Level::kMetadata) {
      header.metadata[field_] = value;
    } else if (level_ == Level::kTensor && field_ == "dtype") {
      tensor_.dtype = value;
    } else {
      return Unexpected("a string");
    }
    return true;
  }

  bool start_array(size_t) override {
    if (level_ != Level::kTensor || field_ == "dtype") return Unexpected("an array");
    return Enter(Level::kArray);
  }

  bool number_unsigned(uint64_t value) override {
    if (level_ != Level::kArray) return Unexpected("a number");
    if (value > std::numeric_limits<int64_t>::max()) return Unexpected(absl::StrCat(value));
    std::vector<int64_t>& numbers = field_ == "shape" ? tensor_.shape : tensor_.data_offsets;
    if (numbers.size() == kMaxRank) return Fail(absl::StrCat(field_, " is too long"));
    numbers.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool number_integer(int64_t value) override { return Unexpected(absl::StrCat(value)); }
  bool number_float(double value, const std::string&) override {
    return Unexpected(absl::StrCat(value));
  }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool null() override { return Unexpected("null"); }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool end_array() override { return Enter(Level::kTensor); }

  bool end_object() override {
    if (level_ == Level::kRoot) return EndFile();
    return level_ == Level::kTensor ? EndTensor() : Enter(Level::kRoot);
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error = absl::StrCat("header is not valid JSON at byte ", position);
    return false;
  }

 private:
  enum class Level { kFile, kRoot, kMetadata, kTensor, kArray };

  bool Enter(Level level) {
    level_ = level;
    return true;
  }

  bool EndTensor() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (fields_.count(field) == 0) return Fail(absl::StrCat(field, " is missing"));
    }
    // Before the size, which another dtype makes wrong too.
    const auto expected = expected_.find(name_);
    if (expected != expected_.end() && tensor_.dtype != expected->second) {
      return Fail(absl::StrCat("dtype ", Quoted(tensor_.dtype), ", expected ", expected->second));
    }
    const std::string fault = EntryFault(tensor_, data_bytes_);
    if (!fault.empty()) return Fail(fault);
    header.tensors.emplace(name_, std::move(tensor_));
    return Enter(Level::kRoot);
  }

  // No byte belongs to two tensors; some may belong to none.
  bool EndFile() {
    using Named = std::pair<const std::string, TensorEntry>;
    std::vector<const Named*> in_order;
    for (const Named& tensor : header.tensors) in_order.push_back(&tensor);
    std::sort(in_order.begin(), in_order.end(), [](const Named* a, const Named* b) {
      return a->second.data_offsets < b->second.data_offsets;
    });
    for (size_t i = 1; i < in_order.size(); ++i) {
      const auto& [before, first] = *in_order[i - 1];
      const auto& [name, second] = *in_order[i];
      if (second.data_offsets[0] >= first.data_offsets[1]) continue;
      return Fail(absl::StrCat("tensor ", Quoted(name), ": data_offsets ",
                               ListText(second.data_offsets), " overlap those of tensor ",
                               Quoted(before), ", ", ListText(first.data_offsets)));
    }
    return Enter(Level::kFile);
  }

  std::string Where() const {
    if (level_ == Level::kMetadata) return "metadata: ";
    if (level_ == Level::kTensor || level_ == Level::kArray) {
      return absl::StrCat("tensor ", Quoted(name_), ": ");
    }
    return "header: ";
  }

  bool Fail(absl::string_view what) {
    error = absl::StrCat(Where(), what);
    return false;
  }

  bool Unexpected(absl::string_view found) {
    switch (level_) {
      case Level::kFile:
        return Fail(absl::StrCat("expected an object, found ", found));
      case Level::kRoot:
        return Fail(absl::StrCat(Quoted(name_), ": expected an object, found ", found));
      case Level::kMetadata:
        return Fail(absl::StrCat(Quoted(field_), ": expected a string, found ", found));
      case Level::kTensor:
        return Fail(absl::StrCat(field_, ": expected ",
                                 field_ == "dtype" ? "a string" : "an array of integers",
                                 ", found ", found));
      case Level::kArray:
        return Fail(absl::StrCat(field_, ": expected a non-negative integer, found ", found));
    }
    return false;
  }

  const int64_t data_bytes_;
  const ExpectedDtypes& expected_;
  Level level_ = Level::kFile;
  std::string name_;              // of the entry of the root
  std::string field_;             // within that entry
  std::set<std::string> names_;   // seen so far
  std::set<std::string> fields_;  // seen so far in this entry
  TensorEntry tensor_;
};

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text, int64_t data_bytes,
                                                         const ExpectedDtypes& expected) {
  HeaderEvents events(data_bytes, expected);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &events)) {
    return absl::InvalidArgumentError(events.error);
  }
  return std::move(events.header);
}

}  // namespace spin::trace

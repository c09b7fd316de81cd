// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "policy_file/json_bounds.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace spin::policy_file {
namespace {

constexpr size_t kShownCharacters = 64;

// Takes the events of nlohmann's parser; false ends the parse.
class BoundsEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::string error;  // set once an event returned false

  bool start_object(size_t) override { return Enter(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }

  bool key(std::string& key) override {
    Level& level = levels_.back();
    level.field = key;
    if (level.fields.insert(key).second) return true;
    return Fail("is there twice");
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(binary_t&) override { return true; }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error = absl::StrCat("is not valid JSON at byte ", position);
    return false;
  }

 private:
  struct Level {
    std::string field;  // being read; empty in an array
    std::set<std::string> fields;
  };

  bool Enter() {
    if (levels_.size() == kMaxJsonLevels) {
      return Fail(absl::StrCat("has more than ", kMaxJsonLevels, " levels"));
    }
    levels_.emplace_back();
    return true;
  }

  bool Leave() {
    levels_.pop_back();
    return true;
  }

  bool Fail(absl::string_view what) {
    std::string path;
    for (const Level& level : levels_) {
      if (level.field.empty()) continue;
      absl::StrAppend(&path, path.empty() ? "" : ".", ShownName(level.field));
    }
    error = absl::StrCat(path, path.empty() ? "" : ": ", what);
    return false;
  }

  std::vector<Level> levels_;  // those that are open
};

}  // namespace

absl::Status CheckJson(absl::string_view json) {
  BoundsEvents events;
  if (nlohmann::json::sax_parse(json.begin(), json.end(), &events)) return absl::OkStatus();
  return absl::InvalidArgumentError(events.error);
}

std::string ShownName(absl::string_view name) {
  return absl::StrCat(absl::CHexEscape(name.substr(0, kShownCharacters)),
                      name.size() > kShownCharacters ? "..." : "");
}

}  // namespace spin::policy_file

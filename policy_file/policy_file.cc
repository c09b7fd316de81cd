// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "policy_file/policy_file.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "policy_file/json_bounds.h"

namespace spin::policy_file {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // to write: finding a key takes as long as it has keys

constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxLayers = 128;  // limit of the contract
constexpr size_t kShownCharacters = 64;
constexpr char kFormat[] = "spin-policy";
constexpr int kVersion = 1;
constexpr char kModePrefix[] = "BUDGET_MODE_";

absl::Status Wrong(absl::string_view field, const Json& found, absl::string_view expected) {
  const std::string text =
      found.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", text.substr(0, kShownCharacters),
                                                 text.size() > kShownCharacters ? "..." : "",
                                                 " is not ", expected));
}

// What a ratio may be; all are at least 0.
enum class Range { kBelowOne, kUpToOne, kBetween };

absl::Status ReadRatio(const Json& json, absl::string_view field, Range range, double* out) {
  constexpr absl::string_view kExpected[] = {"a number in [0, 1)", "a number in [0, 1]",
                                             "a number in (0, 1)"};
  const double value = json.is_number() ? json.get<double>() : -1;
  const bool low = range == Range::kBetween ? value > 0 : value >= 0;
  const bool high = range == Range::kUpToOne ? value <= 1 : value < 1;
  if (!low || !high) return Wrong(field, json, kExpected[static_cast<int>(range)]);
  *out = value;
  return absl::OkStatus();
}

absl::Status ReadInteger(const Json& json, absl::string_view field, uint64_t most, uint64_t* out) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > most) {
    return Wrong(field, json, absl::StrCat("a whole number from 0 to ", most));
  }
  *out = json.get<uint64_t>();
  return absl::OkStatus();
}

absl::Status ReadBool(const Json& json, absl::string_view field, bool* out) {
  if (!json.is_boolean()) return Wrong(field, json, "true or false");
  *out = json.get<bool>();
  return absl::OkStatus();
}

absl::Status ReadLayers(const Json& json, absl::string_view field, v1::Policy* policy) {
  if (!json.is_array()) return Wrong(field, json, "a list of numbers, one for each layer");
  if (json.size() > kMaxLayers) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", json.size(), " layers are more than Spin takes, ", kMaxLayers));
  }
  for (size_t i = 0; i < json.size(); ++i) {
    double value = 0;
    absl::Status status =
        ReadRatio(json[i], absl::StrCat(field, "[", i, "]"), Range::kBelowOne, &value);
    if (!status.ok()) return status;
    policy->add_layer_sparsity(value);
  }
  return absl::OkStatus();
}

absl::Status ReadMode(const Json& json, absl::string_view field, v1::Policy* policy) {
  const v1::BudgetMode mode =
      json.is_string() ? ModeFrom(json.get<std::string>()) : v1::BUDGET_MODE_UNSPECIFIED;
  if (mode == v1::BUDGET_MODE_UNSPECIFIED) {
    return Wrong(field, json, "one of: fixed, calibrated, target_miss");
  }
  policy->set_budget_mode(mode);
  return absl::OkStatus();
}

absl::Status ReadField(const std::string& name, const Json& json, v1::Policy* policy) {
  const std::string field = absl::StrCat("policy.", ShownName(name));
  const auto ratio = [&](Range range, void (v1::Policy::*set)(double)) {
    double value = 0;
    absl::Status status = ReadRatio(json, field, range, &value);
    if (status.ok()) (policy->*set)(value);
    return status;
  };
  const auto flag = [&](void (v1::Policy::*set)(bool)) {
    bool value = false;
    absl::Status status = ReadBool(json, field, &value);
    if (status.ok()) (policy->*set)(value);
    return status;
  };
  uint64_t integer = 0;
  absl::Status status;
  if (name == "sparsity") return ratio(Range::kBelowOne, &v1::Policy::set_sparsity);
  if (name == "layer_sparsity") return ReadLayers(json, field, policy);
  if (name == "exploration") return ratio(Range::kUpToOne, &v1::Policy::set_exploration);
  if (name == "decay") return ratio(Range::kBelowOne, &v1::Policy::set_decay);
  if (name == "target_miss") return ratio(Range::kBetween, &v1::Policy::set_target_miss);
  if (name == "min_sparsity") return ratio(Range::kBelowOne, &v1::Policy::set_min_sparsity);
  if (name == "max_sparsity") return ratio(Range::kBelowOne, &v1::Policy::set_max_sparsity);
  if (name == "pin_first_block") return flag(&v1::Policy::set_pin_first_block);
  if (name == "enabled") return flag(&v1::Policy::set_enabled);
  if (name == "budget_mode") return ReadMode(json, field, policy);
  if (name == "seed") {
    status = ReadInteger(json, field, std::numeric_limits<uint64_t>::max(), &integer);
    if (status.ok()) policy->set_seed(integer);
    return status;
  }
  if (name == "audit_every") {
    status = ReadInteger(json, field, std::numeric_limits<uint32_t>::max(), &integer);
    if (status.ok()) policy->set_audit_every(static_cast<uint32_t>(integer));
    return status;
  }
  return absl::InvalidArgumentError(absl::StrCat(field, ": there is no such field"));
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be read"));
  const auto close = absl::MakeCleanup([file] { std::fclose(file); });
  std::string text;
  char piece[4096];
  while (const size_t bytes = std::fread(piece, 1, sizeof piece, file)) {
    text.append(piece, bytes);
    if (text.size() > kMaxBytes) break;  // Parse says so
  }
  if (std::ferror(file)) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be read"));
  return text;
}

absl::Status CheckFrame(const Json& file) {
  if (!file.is_object()) return absl::InvalidArgumentError("is not a JSON object");
  for (auto field = file.begin(); field != file.end(); ++field) {
    const std::string& name = field.key();
    if (name != "format" && name != "version" && name != "policy" && name != "origin") {
      return absl::InvalidArgumentError(absl::StrCat(ShownName(name), ": there is no such field"));
    }
  }
  if (!file.contains("format") || file["format"] != kFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat("format: must be \"", kFormat, "\"; this is not a policy file"));
  }
  if (!file.contains("version") || file["version"] != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat("version: must be ", kVersion));
  }
  if (!file.contains("policy") || !file["policy"].is_object()) {
    return absl::InvalidArgumentError("policy: must be an object with the fields of the policy");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Policy> Parse(absl::string_view text) {
  if (text.size() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("is larger than ", kMaxBytes, " bytes, the most that a policy may take"));
  }
  absl::Status status = CheckJson(text);
  if (!status.ok()) return status;
  const Json file = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  status = CheckFrame(file);
  if (!status.ok()) return status;
  const Json& fields = file["policy"];
  v1::Policy policy;
  for (auto field = fields.begin(); field != fields.end(); ++field) {
    status = ReadField(field.key(), *field, &policy);
    if (!status.ok()) return status;
  }
  return policy;
}

absl::StatusOr<v1::Policy> Read(const std::string& path) {
  absl::StatusOr<std::string> text = ReadText(path);
  if (!text.ok()) return text.status();
  absl::StatusOr<v1::Policy> policy = Parse(*text);
  if (policy.ok()) return policy;
  return absl::Status(policy.status().code(), absl::StrCat(path, ": ", policy.status().message()));
}

std::string Format(const v1::Policy& policy, absl::string_view origin) {
  OrderedJson out = OrderedJson::object();
  if (policy.has_budget_mode()) out["budget_mode"] = ModeName(policy.budget_mode());
  if (policy.has_sparsity()) out["sparsity"] = policy.sparsity();
  if (!policy.layer_sparsity().empty()) {
    out["layer_sparsity"] =
        std::vector<double>(policy.layer_sparsity().begin(), policy.layer_sparsity().end());
  }
  if (policy.has_target_miss()) out["target_miss"] = policy.target_miss();
  if (policy.has_min_sparsity()) out["min_sparsity"] = policy.min_sparsity();
  if (policy.has_max_sparsity()) out["max_sparsity"] = policy.max_sparsity();
  if (policy.has_exploration()) out["exploration"] = policy.exploration();
  if (policy.has_decay()) out["decay"] = policy.decay();
  if (policy.has_seed()) out["seed"] = policy.seed();
  if (policy.has_audit_every()) out["audit_every"] = policy.audit_every();
  if (policy.has_pin_first_block()) out["pin_first_block"] = policy.pin_first_block();
  if (policy.has_enabled()) out["enabled"] = policy.enabled();
  OrderedJson file = {{"format", kFormat}, {"version", kVersion}, {"policy", out}};
  OrderedJson about =
      OrderedJson::parse(origin.begin(), origin.end(), nullptr, /*allow_exceptions=*/false);
  if (about.is_object()) file["origin"] = std::move(about);
  return file.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string ModeName(v1::BudgetMode mode) {
  if (mode == v1::BUDGET_MODE_UNSPECIFIED) return "";
  return absl::AsciiStrToLower(absl::StripPrefix(v1::BudgetMode_Name(mode), kModePrefix));
}

v1::BudgetMode ModeFrom(absl::string_view name) {
  for (int value = 1; value <= v1::BudgetMode_MAX; ++value) {
    const auto mode = static_cast<v1::BudgetMode>(value);
    if (name == ModeName(mode)) return mode;
  }
  return v1::BUDGET_MODE_UNSPECIFIED;
}

}  // namespace spin::policy_file

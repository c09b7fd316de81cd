// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/status_page.h"

#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "server/start_failure.h"
#include "server/status_page_html.h"

namespace spin::server {
namespace {

// These messages hold nothing that has no JSON form: text fields are UTF-8 since they were parsed.
std::string Json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  return status.ok() ? json : "null";
}

}  // namespace

absl::string_view StatusPage() { return {kStatusPageHtml, sizeof kStatusPageHtml - 1}; }

std::string StatusJson(bool live, const v1::ListSessionsResponse& sessions,
                       const v1::WatchStatsResponse& stats) {
  return absl::StrCat("{\"live\":", live ? "true" : "false", ",\"list\":", Json(sessions),
                      ",\"stats\":", Json(stats), "}");
}

std::string StartFailureJson(const absl::Status& failure) {
  const nlohmann::ordered_json json = {{"live", true},
                                       {"startFailure",
                                        {{"reason", std::string(NameOf(PartOf(failure)))},
                                         {"message", std::string(failure.message())},
                                         {"retries", MayPass(failure)}}}};
  // A message may quote a flag of any bytes.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace spin::server

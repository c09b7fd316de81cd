// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/environment.h"

#include <algorithm>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace spin::server {
namespace {

// SPIND_SERVICE_HOST, SPIND_PORT_9464_TCP_ADDR and the like, also of a Service spind-metrics.
bool IsOfService(const std::string& name) {
  static const std::regex kPattern(
      "SPIND_(.*_)?"
      "(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)");
  return std::regex_match(name, kPattern);
}

}  // namespace

std::vector<std::string> UnknownVariables(const std::vector<std::string>& known,
                                          const char* const* environment) {
  std::vector<std::string> unknown;
  for (; *environment != nullptr; ++environment) {
    const absl::string_view entry(*environment);
    const std::string name(entry.substr(0, entry.find('=')));
    if (!absl::StartsWith(name, "SPIND_") || IsOfService(name)) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    unknown.push_back(absl::StrCat(
        name, " in the environment is no setting of spind; spind --help has their names"));
  }
  return unknown;
}

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/environment.h"

#include <algorithm>
#include <regex>
#include <utility>

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

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

// "; did you mean SPIND_SPARSITY?", or nothing if nothing is near.
std::string Suggestion(const std::vector<std::string>& known, const std::string& name) {
  std::string best;
  size_t least = 3;  // more edits are no slip
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(name, candidate);
    if (distance >= least) continue;
    least = distance;
    best = candidate;
  }
  return best.empty() ? "" : absl::StrCat("; did you mean ", best, "?");
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
    unknown.push_back(
        absl::StrCat(name, " in the environment is no setting of spind", Suggestion(known, name)));
  }
  return unknown;
}

}  // namespace spin::server

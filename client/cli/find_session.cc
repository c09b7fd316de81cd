// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/find_session.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/ids.h"

namespace spin::cli {

absl::StatusOr<v1::SessionInfo> FindSession(const Connection& connection, const std::string& flag,
                                            const std::string& text) {
  std::string digits = absl::AsciiStrToLower(text);
  if (absl::StartsWith(digits, "0x")) digits.erase(0, 2);
  if (!IsHexadecimal(digits)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": '", text, "' is not a session id; 'spinctl sessions' lists them"));
  }
  const auto list =
      connection.Call(&v1::SpinService::Stub::ListSessions, v1::ListSessionsRequest());
  if (!list.ok()) return list.status();
  std::vector<v1::SessionInfo> found;
  for (const v1::SessionInfo& session : list->sessions()) {
    if (absl::StartsWith(FormatId(session.session_id()), digits)) found.push_back(session);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no open session ", text, "; 'spinctl sessions' lists them"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": ", found.size(), " sessions begin with ", text, "; give more digits"));
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/connection.h"
#include "client/cli/describe.h"
#include "client/cli/find_session.h"
#include "client/cli/ids.h"
#include "client/cli/json.h"
#include "client/cli/policy/command.h"
#include "client/cli/policy/table.h"
#include "client/cli/socket_probe.h"
#include "client/cli/terminal/color.h"
#include "client/cli/terminal/terminal.h"

namespace spin::cli {
namespace {

constexpr char kFooter[] = R"(Examples:
  spinctl policy get
  spinctl policy get --session 3f9a --json)";

struct GetFlags {
  CommonFlags common;
  std::string session;  // empty: all
};

Json EntryJson(const v1::SessionInfo& session) {
  return {{"session_id", FormatId(session.session_id())},
          {"policy", PolicyJson(session.policy())},
          {"policy_epoch", session.policy_epoch()},
          {"policy_reason", session.policy_reason()}};
}

// Of one session, or of all of them and of those to come.
absl::StatusOr<v1::ListSessionsResponse> Chosen(const Connection& connection,
                                                const std::string& id) {
  if (id.empty()) {
    return connection.Call(&v1::SpinService::Stub::ListSessions, v1::ListSessionsRequest());
  }
  absl::StatusOr<v1::SessionInfo> one = FindSession(connection, "--session", id);
  if (!one.ok()) return one.status();
  v1::ListSessionsResponse out;
  *out.add_sessions() = *std::move(one);
  return out;
}

absl::Status RunGet(const GetFlags& flags) {
  const Connection connection(SocketOrDefault(flags.common.socket));
  const auto chosen = Chosen(connection, flags.session);
  if (!chosen.ok()) return chosen.status();
  Json out = {{"sessions", Json::array()}};
  Table table = PolicyTable();
  if (chosen->has_default_policy()) {
    out["default"] = {{"policy", PolicyJson(chosen->default_policy())},
                      {"policy_epoch", chosen->default_policy_epoch()}};
    table.AddRow(PolicyRow("(default)", chosen->default_policy(), chosen->default_policy_epoch()));
  }
  for (const v1::SessionInfo& session : chosen->sessions()) {
    out["sessions"].push_back(EntryJson(session));
    table.AddRow(
        PolicyRow(FormatId(session.session_id()), session.policy(), session.policy_epoch()));
  }
  if (flags.common.json) return Print(Dump(out));
  return Print(table.Render(Paint(DetectTerminal(STDOUT_FILENO).color)));
}

}  // namespace

void AddPolicyGetCommand(CLI::App* policy, Action* action) {
  const auto flags = std::make_shared<GetFlags>();
  CLI::App* command = policy->add_subcommand(
      "get", "The policy of new sessions and of all that are open, or of one");
  command->footer(kFooter);
  command->add_option("--session", flags->session, "Only this one")->type_name("ID");
  AddSocketFlag(command, &flags->common);
  AddJsonFlag(command, &flags->common);
  command->callback([=] { *action = [flags] { return RunGet(*flags); }; });
}

}  // namespace spin::cli

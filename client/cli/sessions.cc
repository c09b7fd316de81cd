// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/command.h"
#include "client/cli/connection.h"
#include "client/cli/describe.h"
#include "client/cli/find_session.h"
#include "client/cli/ids.h"
#include "client/cli/json.h"
#include "client/cli/socket_probe.h"
#include "client/cli/terminal/color.h"
#include "client/cli/terminal/numbers.h"
#include "client/cli/terminal/table.h"
#include "client/cli/terminal/terminal.h"

namespace spin::cli {
namespace {

constexpr char kFooter[] = R"(Examples:
  spinctl sessions                  a line for each
  spinctl sessions 3f9a             everything about the one whose id begins so
  spinctl sessions --json | jq -r '.sessions[] | select(.attached | not) | .session_id')";

struct SessionsFlags {
  CommonFlags common;
  std::string id;
};

std::string PeerText(const v1::SessionInfo& session) {
  const std::string process = session.peer_process_id() == 0
                                  ? "in another pid namespace"
                                  : absl::StrCat("process ", session.peer_process_id());
  return absl::StrCat(process, ", user ", session.peer_user_id());
}

std::string SessionTable(const v1::ListSessionsResponse& list, const Paint& paint) {
  if (list.sessions().empty()) return "no open session\n";
  using Align = Table::Align;
  Table table({{"session", Align::kLeft},
               {"model", Align::kLeft},
               {"client", Align::kLeft},
               {"executor", Align::kLeft},
               {"sparsity"},
               {"requests"},
               {"state"},
               {"open for"}});
  for (const v1::SessionInfo& session : list.sessions()) {
    table.AddRow({FormatId(session.session_id()), session.model_name(), session.client_name(),
                  ExecutorName(session.executor()),
                  session.policy().enabled() ? SparsityText(session.policy()) : "off",
                  FormatCount(session.open_requests()), FormatBytes(session.state_bytes()),
                  FormatAge(absl::Now() - ToTime(session.opened_at()))});
  }
  return table.Render(paint);
}

std::string GeometryText(const v1::Geometry& g) {
  return absl::StrFormat(
      "%d layers, blocks of %d slots, top-K %d, %d %s per slot\n"
      "  limits    context %s slots, requests %d, verifier rows %d",
      g.layers(), g.block_slots(), g.topk(), g.tokens_per_slot(),
      g.tokens_per_slot() == 1 ? "token" : "tokens", FormatCount(g.max_slots()), g.max_requests(),
      g.max_next_n());
}

std::string PolicyText(const v1::Policy& policy) {
  if (!policy.enabled()) return "off: every list keeps all blocks";
  return absl::StrFormat(
      "sparsity %s, exploration %s, decay %g, audits %s%s", SparsityText(policy),
      FormatPercent(policy.exploration(), 1), policy.decay(),
      policy.audit_every() == 0 ? "never" : absl::StrCat("1 in ", policy.audit_every()),
      policy.pin_first_block() ? ", first block pinned" : "");
}

std::string OneSession(const v1::SessionInfo& session) {
  return absl::StrFormat(
      "session %s\n"
      "  model     %s\n"
      "  client    %s (%s)\n"
      "  open for  %s, %s\n"
      "  executor  %s, %s state\n"
      "  shape     %s\n"
      "  policy    %s\n"
      "            seed %d, policy epoch %d\n"
      "  requests  %d open, %s of state\n",
      FormatId(session.session_id()), session.model_name(), session.client_name(),
      PeerText(session), FormatAge(absl::Now() - ToTime(session.opened_at())),
      session.attached() ? "attached" : "not attached", ExecutorName(session.executor()),
      DtypeName(session.geometry().state_dtype()), GeometryText(session.geometry()),
      PolicyText(session.policy()), session.policy().seed(), session.policy_epoch(),
      session.open_requests(), FormatBytes(session.state_bytes()));
}

std::string ListJson(const v1::ListSessionsResponse& list) {
  Json sessions = Json::array();
  for (const v1::SessionInfo& session : list.sessions()) sessions.push_back(SessionJson(session));
  return Dump({{"sessions", std::move(sessions)}});
}

absl::Status ShowOne(const Connection& connection, const SessionsFlags& flags) {
  const absl::StatusOr<v1::SessionInfo> session = FindSession(connection, "ID", flags.id);
  if (!session.ok()) return session.status();
  return Print(flags.common.json ? Dump(SessionJson(*session)) : OneSession(*session));
}

absl::Status RunSessions(const SessionsFlags& flags) {
  const Connection connection(SocketOrDefault(flags.common.socket));
  if (!flags.id.empty()) return ShowOne(connection, flags);
  const auto list =
      connection.Call(&v1::SpinService::Stub::ListSessions, v1::ListSessionsRequest());
  if (!list.ok()) return list.status();
  const Paint paint(DetectTerminal(STDOUT_FILENO).color);
  return Print(flags.common.json ? ListJson(*list) : SessionTable(*list, paint));
}

}  // namespace

void AddSessionsCommand(CLI::App* app, Action* action) {
  const auto flags = std::make_shared<SessionsFlags>();
  CLI::App* command = app->add_subcommand("sessions", "The open sessions, or one in detail");
  command->footer(kFooter);
  command->add_option("ID", flags->id, "Session id, or as many digits as are unique");
  AddSocketFlag(command, &flags->common);
  AddJsonFlag(command, &flags->common);
  command->callback([=] { *action = [flags] { return RunSessions(*flags); }; });
}

}  // namespace spin::cli

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
#include "client/cli/health.h"
#include "client/cli/ids.h"
#include "client/cli/json.h"
#include "client/cli/socket_probe.h"
#include "client/cli/terminal/bar.h"
#include "client/cli/terminal/color.h"
#include "client/cli/terminal/numbers.h"
#include "client/cli/terminal/terminal.h"

namespace spin::cli {
namespace {

constexpr char kFooter[] = R"(Examples:
  spinctl status
  spinctl status --socket /run/spin/spind.sock --json | jq .server.slab_used_bytes)";

uint32_t OpenRequests(const v1::ListSessionsResponse& list) {
  uint32_t requests = 0;
  for (const v1::SessionInfo& session : list.sessions()) requests += session.open_requests();
  return requests;
}

std::string StatusJson(const v1::ListSessionsResponse& list, const absl::Status& health) {
  return Dump({{"serving", health.ok()},
               {"server", ServerJson(list.server())},
               {"sessions", list.sessions_size()},
               {"requests", OpenRequests(list)}});
}

std::string SlabText(const v1::ServerInfo& server, const Terminal& terminal) {
  const double share = static_cast<double>(server.slab_used_bytes()) /
                       static_cast<double>(std::max<uint64_t>(1, server.slab_bytes()));
  return absl::StrFormat("%s of %s  [%s] %s", FormatBytes(server.slab_used_bytes()),
                         FormatBytes(server.slab_bytes()), Bar(share, 20, terminal.unicode),
                         FormatPercent(share, 0));
}

std::string StatusText(const v1::ListSessionsResponse& list, const absl::Status& health,
                       const std::string& socket, const Terminal& terminal) {
  const v1::ServerInfo& server = list.server();
  const Paint paint(terminal.color);
  const std::string state =
      health.ok() ? paint(Tone::kGood, "serving") : paint(Tone::kBad, health.message());
  const std::string admin = server.admin_address().empty()
                                ? "off"
                                : absl::StrCat("http://", server.admin_address(), "/metrics");
  return absl::StrFormat(
      "spind %s, %s\n"
      "  socket    %s\n"
      "  up        %s (process %d)\n"
      "  epoch     %s\n"
      "  device    %s\n"
      "  slab      %s\n"
      "  sessions  %d open, requests %d open\n"
      "  metrics   %s\n",
      server.version(), state, socket, FormatAge(absl::Now() - ToTime(server.started_at())),
      server.process_id(), FormatId(server.epoch()), server.device_uuid(),
      SlabText(server, terminal), list.sessions_size(), OpenRequests(list), admin);
}

absl::Status RunStatus(const CommonFlags& flags) {
  const Connection connection(SocketOrDefault(flags.socket));
  const auto list =
      connection.Call(&v1::SpinService::Stub::ListSessions, v1::ListSessionsRequest());
  if (!list.ok()) return list.status();
  absl::Status health = CheckHealth(connection);
  const std::string text =
      flags.json ? StatusJson(*list, health)
                 : StatusText(*list, health, connection.socket(), DetectTerminal(STDOUT_FILENO));
  if (absl::Status status = Print(text); !status.ok()) return status;
  return health;
}

}  // namespace

void AddStatusCommand(CLI::App* app, Action* action) {
  const auto flags = std::make_shared<CommonFlags>();
  CLI::App* command = app->add_subcommand("status", "What a running spind is and how full it is");
  command->footer(kFooter);
  AddSocketFlag(command, flags.get());
  AddJsonFlag(command, flags.get());
  command->callback([=] { *action = [flags] { return RunStatus(*flags); }; });
}

}  // namespace spin::cli

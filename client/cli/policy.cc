// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/command.h"
#include "client/cli/connection.h"
#include "client/cli/describe.h"
#include "client/cli/find_session.h"
#include "client/cli/json.h"
#include "client/cli/socket_probe.h"
#include "client/cli/terminal/color.h"
#include "client/cli/terminal/numbers.h"
#include "client/cli/terminal/table.h"
#include "client/cli/terminal/terminal.h"
#include "client/cli/values.h"

namespace spin::cli {
namespace {

constexpr char kGetFooter[] = R"(Examples:
  spinctl policy get
  spinctl policy get --session 3f9a --json)";

constexpr char kSetFooter[] =
    R"(Takes effect with the next prediction; nothing restarts. Flags that are left out stay as they are.

Examples:
  spinctl policy set --all --sparsity 0.5          also the default for new sessions
  spinctl policy set --session 3f9a --audit-every 16
  spinctl policy set --session 3f9a --layer-sparsity 0.3,0.6,0.6,0.7
  spinctl policy set --all --disable               keep all blocks: as if Spin were not there)";

struct PolicyFlags {
  CommonFlags common;
  std::string session;
  bool all = false;
  std::optional<double> sparsity, exploration, alpha;
  std::vector<double> layer_sparsity;
  std::optional<uint32_t> audit_every;
  std::optional<uint64_t> seed;
  std::string pin_first_block;  // "true", "false" or not given
  bool enable = false, disable = false;
};

std::vector<std::string> Row(const std::string& name, const v1::Policy& policy, uint64_t epoch) {
  return {name,
          policy.enabled() ? "on" : "off",
          SparsityText(policy),
          FormatPercent(policy.exploration(), 1),
          absl::StrCat(policy.decay()),
          policy.audit_every() == 0 ? "never" : absl::StrCat("1 in ", policy.audit_every()),
          policy.pin_first_block() ? "yes" : "no",
          absl::StrCat(policy.seed()),
          absl::StrCat(epoch)};
}

Table PolicyTable() {
  using Align = Table::Align;
  return Table({{"session", Align::kLeft},
                {"state", Align::kLeft},
                {"sparsity"},
                {"exploration"},
                {"alpha"},
                {"audits"},
                {"pin first"},
                {"seed"},
                {"policy epoch"}});
}

Json EntryJson(const v1::SessionInfo& session) {
  return {{"session_id", FormatId(session.session_id())},
          {"policy", PolicyJson(session.policy())},
          {"policy_epoch", session.policy_epoch()}};
}

absl::StatusOr<std::vector<v1::SessionInfo>> Chosen(const Connection& connection,
                                                    const std::string& id) {
  if (!id.empty()) {
    absl::StatusOr<v1::SessionInfo> one = FindSession(connection, "--session", id);
    if (!one.ok()) return one.status();
    return std::vector<v1::SessionInfo>{*std::move(one)};
  }
  const auto list =
      connection.Call(&v1::SpinService::Stub::ListSessions, v1::ListSessionsRequest());
  if (!list.ok()) return list.status();
  return std::vector<v1::SessionInfo>(list->sessions().begin(), list->sessions().end());
}

absl::Status RunGet(const PolicyFlags& flags) {
  const Connection connection(SocketOrDefault(flags.common.socket));
  const auto sessions = Chosen(connection, flags.session);
  if (!sessions.ok()) return sessions.status();
  Json list = Json::array();
  Table table = PolicyTable();
  for (const v1::SessionInfo& session : *sessions) {
    list.push_back(EntryJson(session));
    table.AddRow(Row(FormatId(session.session_id()), session.policy(), session.policy_epoch()));
  }
  if (flags.common.json) return Print(Dump({{"sessions", std::move(list)}}));
  if (sessions->empty()) return Print("no open session\n");
  return Print(table.Render(Paint(DetectTerminal(STDOUT_FILENO).color)));
}

v1::UpdatePolicyRequest RequestFor(const PolicyFlags& flags) {
  v1::UpdatePolicyRequest request;
  v1::Policy& policy = *request.mutable_policy();
  if (flags.sparsity) policy.set_sparsity(*flags.sparsity);
  if (flags.exploration) policy.set_exploration(*flags.exploration);
  if (flags.alpha) policy.set_decay(*flags.alpha);
  if (flags.audit_every) policy.set_audit_every(*flags.audit_every);
  if (flags.seed) policy.set_seed(*flags.seed);
  if (!flags.pin_first_block.empty()) policy.set_pin_first_block(flags.pin_first_block == "true");
  if (flags.enable || flags.disable) policy.set_enabled(flags.enable);
  policy.mutable_layer_sparsity()->Add(flags.layer_sparsity.begin(), flags.layer_sparsity.end());
  return request;
}

absl::Status CheckSetFlags(const PolicyFlags& flags, const v1::UpdatePolicyRequest& request) {
  if (flags.session.empty() == !flags.all) {
    return absl::InvalidArgumentError("say what to change: --session ID, or --all");
  }
  if (request.policy().ByteSizeLong() == 0) {
    return absl::InvalidArgumentError(
        "nothing to change: give at least one of --sparsity, "
        "--exploration, ... (see 'spinctl policy set --help')");
  }
  return absl::OkStatus();
}

absl::Status PrintUpdated(const PolicyFlags& flags, const v1::UpdatePolicyResponse& response,
                          const std::string& name) {
  if (flags.common.json) {
    return Print(Dump({{"policy", PolicyJson(response.policy())},
                       {"policy_epoch", response.policy_epoch()},
                       {"sessions_changed", response.sessions_changed()}}));
  }
  Table table = PolicyTable();
  table.AddRow(Row(name, response.policy(), response.policy_epoch()));
  const uint32_t changed = response.sessions_changed();
  return Print(absl::StrCat(table.Render(Paint(DetectTerminal(STDOUT_FILENO).color)), changed,
                            changed == 1 ? " session" : " sessions", " changed\n"));
}

absl::Status RunSet(const PolicyFlags& flags) {
  v1::UpdatePolicyRequest request = RequestFor(flags);
  if (absl::Status status = CheckSetFlags(flags, request); !status.ok()) return status;
  const Connection connection(SocketOrDefault(flags.common.socket));
  if (!flags.all) {
    const auto session = FindSession(connection, "--session", flags.session);
    if (!session.ok()) return session.status();
    request.set_session_id(session->session_id());
  }
  const auto response = connection.Call(&v1::SpinService::Stub::UpdatePolicy, request);
  if (!response.ok()) return response.status();
  return PrintUpdated(flags, *response, flags.all ? "(default)" : FormatId(request.session_id()));
}

void AddValueFlags(CLI::App* command, PolicyFlags* flags) {
  command
      ->add_option("--sparsity", flags->sparsity,
                   "Share of blocks to skip, in [0, 1); alone, it drops per-layer values")
      ->check(ShareBelowOne())
      ->type_name("SHARE");
  command->add_option("--layer-sparsity", flags->layer_sparsity, "The same for each layer")
      ->check(ShareBelowOne())
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("A,B,...");
  command->add_option("--exploration", flags->exploration, "Share of kept blocks drawn at random")
      ->check(Share())
      ->type_name("SHARE");
  command->add_option("--alpha", flags->alpha, "Weight of the past in the averages, in [0, 1)")
      ->check(ShareBelowOne())
      ->type_name("SHARE");
  command
      ->add_option("--audit-every", flags->audit_every,
                   "Score a step in full with probability 1/N; 0: never")
      ->check(IntegerIn(0, UINT32_MAX))
      ->type_name("N");
  command->add_option("--seed", flags->seed, "Of exploration and audits; equal on all ranks")
      ->check(Unsigned64())
      ->type_name("N");
  command->add_option("--pin-first-block", flags->pin_first_block, "Keep block 0 always")
      ->check(OneOf({"true", "false"}))
      ->type_name("true|false");
  CLI::Option* enable = command->add_flag("--enable", flags->enable, "Predict (again)");
  command->add_flag("--disable", flags->disable, "Keep all blocks, as if Spin were not there")
      ->excludes(enable);
}

void AddGet(CLI::App* policy, Action* action) {
  const auto flags = std::make_shared<PolicyFlags>();
  CLI::App* command = policy->add_subcommand("get", "The policy of all sessions, or of one");
  command->footer(kGetFooter);
  command->add_option("--session", flags->session, "Only this one")->type_name("ID");
  AddSocketFlag(command, &flags->common);
  AddJsonFlag(command, &flags->common);
  command->callback([=] { *action = [flags] { return RunGet(*flags); }; });
}

void AddSet(CLI::App* policy, Action* action) {
  const auto flags = std::make_shared<PolicyFlags>();
  CLI::App* command = policy->add_subcommand("set", "Change it, live");
  command->footer(kSetFooter);
  command->add_option("--session", flags->session, "Change this session")->type_name("ID");
  command->add_flag("--all", flags->all, "Change all sessions, and the default for new ones");
  AddValueFlags(command, flags.get());
  AddSocketFlag(command, &flags->common);
  AddJsonFlag(command, &flags->common);
  command->callback([=] { *action = [flags] { return RunSet(*flags); }; });
}

}  // namespace

void AddPolicyCommand(CLI::App* app, Action* action) {
  CLI::App* policy = app->add_subcommand("policy", "How many blocks are kept, and how: get or set");
  policy->require_subcommand(1);
  AddGet(policy, action);
  AddSet(policy, action);
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/connection.h"
#include "client/cli/describe.h"
#include "client/cli/find_session.h"
#include "client/cli/flag_names.h"
#include "client/cli/ids.h"
#include "client/cli/json.h"
#include "client/cli/policy/command.h"
#include "client/cli/policy/file_flag.h"
#include "client/cli/policy/table.h"
#include "client/cli/policy/value_flags.h"
#include "client/cli/socket_probe.h"
#include "client/cli/terminal/color.h"
#include "client/cli/terminal/terminal.h"
#include "policy_file/policy_file.h"

namespace spin::cli {
namespace {

constexpr char kFooter[] =
    R"(Takes effect with the next prediction; nothing restarts. Flags that are left out stay as they are,
but --sparsity alone drops per-layer values.

Examples:
  spinctl policy set --all --sparsity 0.5          also the default for new sessions
  spinctl policy set --session 3f9a --audit-every 16
  spinctl policy set --session 3f9a --layer-sparsity 0.3,0.6,0.6,0.7
  spinctl policy set --session 3f9a --file tuned.json
  spinctl policy set --all --budget-mode target_miss --target-miss 0.01
  spinctl policy set --all --disable               keep all blocks: as if Spin were not there)";

constexpr FieldFlag kFieldFlags[] = {
    {"policy.sparsity", "--sparsity"},         {"policy.layer_sparsity", "--layer-sparsity"},
    {"policy.exploration", "--exploration"},   {"policy.decay", "--alpha"},
    {"policy.audit_every", "--audit-every"},   {"policy.budget_mode", "--budget-mode"},
    {"policy.target_miss", "--target-miss"},   {"policy.min_sparsity", "--min-sparsity"},
    {"policy.max_sparsity", "--max-sparsity"},
};

struct SetFlags {
  CommonFlags common;
  std::string session;
  bool all = false;
  std::optional<double> sparsity, exploration, alpha;
  std::vector<double> layer_sparsity;
  std::string budget_mode;
  std::optional<double> target_miss, min_sparsity, max_sparsity;
  v1::Policy file;
  std::optional<uint32_t> audit_every;
  std::optional<uint64_t> seed;
  std::string pin_first_block;  // "true", "false" or not given
  bool enable = false, disable = false;
  std::vector<FieldFlag> names;  // of the fields that are not the file's
};

v1::UpdatePolicyRequest RequestFor(const SetFlags& flags) {
  v1::UpdatePolicyRequest request;
  v1::Policy& policy = *request.mutable_policy();
  policy = flags.file;
  if (flags.sparsity || !flags.layer_sparsity.empty()) policy.clear_layer_sparsity();
  if (flags.sparsity) policy.set_sparsity(*flags.sparsity);
  if (!flags.budget_mode.empty()) {
    policy.set_budget_mode(policy_file::ModeFrom(flags.budget_mode));
  }
  if (flags.target_miss) policy.set_target_miss(*flags.target_miss);
  if (flags.min_sparsity) policy.set_min_sparsity(*flags.min_sparsity);
  if (flags.max_sparsity) policy.set_max_sparsity(*flags.max_sparsity);
  if (flags.exploration) policy.set_exploration(*flags.exploration);
  if (flags.alpha) policy.set_decay(*flags.alpha);
  if (flags.audit_every) policy.set_audit_every(*flags.audit_every);
  if (flags.seed) policy.set_seed(*flags.seed);
  if (!flags.pin_first_block.empty()) policy.set_pin_first_block(flags.pin_first_block == "true");
  if (flags.enable || flags.disable) policy.set_enabled(flags.enable);
  policy.mutable_layer_sparsity()->Add(flags.layer_sparsity.begin(), flags.layer_sparsity.end());
  return request;
}

absl::Status CheckSetFlags(const SetFlags& flags, const v1::UpdatePolicyRequest& request) {
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

absl::Status PrintUpdated(const SetFlags& flags, const v1::UpdatePolicyResponse& response,
                          const std::string& name) {
  if (flags.common.json) {
    return Print(Dump({{"policy", PolicyJson(response.policy())},
                       {"policy_epoch", response.policy_epoch()},
                       {"sessions_changed", response.sessions_changed()},
                       {"sessions_with_mean", response.sessions_with_mean()}}));
  }
  Table table = PolicyTable();
  table.AddRow(PolicyRow(name, response.policy(), response.policy_epoch()));
  const uint32_t changed = response.sessions_changed();
  std::string text = absl::StrCat(table.Render(Paint(DetectTerminal(STDOUT_FILENO).color)), changed,
                                  changed == 1 ? " session" : " sessions", " changed\n");
  if (const uint32_t means = response.sessions_with_mean(); means > 0) {
    absl::StrAppend(&text, means, " of them with other than ",
                    response.policy().layer_sparsity_size(),
                    " layers: the mean of the values for each layer\n");
  }
  return Print(text);
}

absl::Status RunSet(const SetFlags& flags) {
  v1::UpdatePolicyRequest request = RequestFor(flags);
  if (absl::Status status = CheckSetFlags(flags, request); !status.ok()) return status;
  const Connection connection(SocketOrDefault(flags.common.socket));
  if (!flags.all) {
    const auto session = FindSession(connection, "--session", flags.session);
    if (!session.ok()) return session.status();
    request.set_session_id(session->session_id());
  }
  const auto response = connection.Call(&v1::SpinService::Stub::UpdatePolicy, request);
  if (!response.ok()) return WithFlagNames(response.status(), flags.names);
  return PrintUpdated(flags, *response, flags.all ? "(default)" : FormatId(request.session_id()));
}

void AddSwitches(CLI::App* command, SetFlags* flags) {
  command->add_option("--pin-first-block", flags->pin_first_block, "Keep block 0 always")
      ->check(OneOf({"true", "false"}))
      ->type_name("true|false");
  CLI::Option* enable = command->add_flag("--enable", flags->enable, "Predict (again)");
  command->add_flag("--disable", flags->disable, "Keep all blocks, as if Spin were not there")
      ->excludes(enable);
}

}  // namespace

void AddPolicySetCommand(CLI::App* policy, Action* action) {
  const auto flags = std::make_shared<SetFlags>();
  CLI::App* command = policy->add_subcommand("set", "Change it, live");
  command->footer(kFooter);
  command->add_option("--session", flags->session, "Change this session")->type_name("ID");
  command->add_flag("--all", flags->all, "Change all sessions, and the default for new ones");
  AddPolicyFileFlag(command, "--file", &flags->file);
  AddPolicyValueFlags(command, flags.get());
  AddSwitches(command, flags.get());
  AddSocketFlag(command, &flags->common);
  AddJsonFlag(command, &flags->common);
  command->callback([=] {
    for (const FieldFlag& name : kFieldFlags) {
      const bool given = command->count(std::string(name.flag)) > 0;
      if (given || command->count("--file") == 0) flags->names.push_back(name);
    }
    *action = [flags] { return RunSet(*flags); };
  });
}

}  // namespace spin::cli

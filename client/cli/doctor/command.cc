// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/doctor/check.h"
#include "client/cli/json.h"
#include "client/cli/socket_probe.h"
#include "client/cli/terminal/color.h"
#include "client/cli/terminal/terminal.h"

namespace spin::cli {
namespace {

constexpr char kFooter[] =
    R"(Makes a connection, opens a tiny session and closes it again; running engines do not notice. Run it
where the engine runs: same user, same container.

Examples:
  spinctl doctor
  spinctl doctor --socket /run/spin/spind.sock --json | jq '.checks[] | select(.outcome == "fail")')";

std::string Name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return "ok";
    case Outcome::kInfo:
      return "info";
    case Outcome::kWarn:
      return "warn";
    case Outcome::kFail:
      return "fail";
    case Outcome::kSkipped:
      return "skipped";
  }
  return "";
}

Tone ToneOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return Tone::kGood;
    case Outcome::kWarn:
      return Tone::kWarn;
    case Outcome::kFail:
      return Tone::kBad;
    default:
      return Tone::kQuiet;
  }
}

bool AnyFailed(const std::vector<Check>& checks) {
  return std::any_of(checks.begin(), checks.end(),
                     [](const Check& check) { return check.outcome == Outcome::kFail; });
}

std::vector<Check> RunChecks(const std::string& path) {
  std::vector<Check> checks = CheckSocket(path);
  const auto [server_checks, server] = CheckServer(path, !AnyFailed(checks));
  for (const auto& more : {server_checks, CheckHost(server.has_value() ? &*server : nullptr)}) {
    checks.insert(checks.end(), more.begin(), more.end());
  }
  return checks;
}

std::string ChecksJson(const std::vector<Check>& checks) {
  Json list = Json::array();
  for (const Check& check : checks) {
    list.push_back({{"check", check.name},
                    {"outcome", Name(check.outcome)},
                    {"found", check.found},
                    {"advice", check.advice}});
  }
  return Dump({{"ok", !AnyFailed(checks)}, {"checks", std::move(list)}});
}

std::string ChecksText(const std::vector<Check>& checks, const Paint& paint) {
  std::string text;
  for (const Check& check : checks) {
    const std::string outcome = absl::StrFormat("%-7s", Name(check.outcome));
    absl::StrAppend(&text, paint(ToneOf(check.outcome), outcome), "  ",
                    absl::StrFormat("%-14s", check.name), check.found, "\n");
    if (!check.advice.empty())
      absl::StrAppend(&text, std::string(23, ' '), "-> ", check.advice, "\n");
  }
  return text;
}

absl::Status RunDoctor(const CommonFlags& flags) {
  const std::vector<Check> checks = RunChecks(SocketOrDefault(flags.socket));
  const Paint paint(DetectTerminal(STDOUT_FILENO).color);
  absl::Status printed = Print(flags.json ? ChecksJson(checks) : ChecksText(checks, paint));
  if (!printed.ok() || !AnyFailed(checks)) return printed;
  const auto failed = std::count_if(checks.begin(), checks.end(), [](const Check& check) {
    return check.outcome == Outcome::kFail;
  });
  return absl::FailedPreconditionError(
      absl::StrCat(failed, failed == 1 ? " check failed" : " checks failed"));
}

}  // namespace

void AddDoctorCommand(CLI::App* app, Action* action) {
  const auto flags = std::make_shared<CommonFlags>();
  CLI::App* command =
      app->add_subcommand("doctor", "Is everything in order, and what to do if not");
  command->footer(kFooter);
  AddSocketFlag(command, flags.get());
  AddJsonFlag(command, flags.get());
  command->callback([=] { *action = [flags] { return RunDoctor(*flags); }; });
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/programs/scripted_engine/command.h"

#include <unistd.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace spin::scripted {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;  // of the line; the first is the command

Json BadCommand(const Words& words) { return {{"bad_command", words}}; }

int64_t Number(const Words& words, size_t index) {
  int64_t value = 0;
  if (index < words.size()) (void)absl::SimpleAtoi(words[index], &value);
  return value;
}

Json Describe(const absl::Status& status) {
  return {{"ok", status.ok()},
          {"code", absl::StatusCodeToString(status.code())},
          {"message", std::string(status.message())}};
}

Json Describe(const Engine::Sequence& sequence) {
  Json out = Describe(sequence.request.status());
  out["capacity"] = sequence.request.capacity_slots();
  out["position"] = sequence.position;
  return out;
}

Json Describe(const SessionStats& stats) {
  Json rows;
  for (int reason = 0; reason < kReasonCount; ++reason) {
    rows[std::string(ReasonName(static_cast<Reason>(reason)))] = stats.rows_by_reason[reason];
  }
  return {{"steps", stats.steps},
          {"rows", rows},
          {"reconnects", stats.reconnects},
          {"rpc_seconds", stats.rpc_seconds}};
}

Json Describe(const std::vector<StepReport>& reports) {
  Json out = {{"reasons", Json::array()}, {"kept", Json::array()},  {"considered", Json::array()},
              {"equal", Json::array()},   {"lists", Json::array()}, {"seconds", Json::array()}};
  for (const StepReport& report : reports) {
    Json reasons = Json::array();
    for (const Reason reason : report.reasons) reasons.push_back(std::string(ReasonName(reason)));
    out["reasons"].push_back(reasons);
    out["kept"].push_back(report.kept);
    out["considered"].push_back(report.considered);
    out["equal"].push_back(report.equal);
    out["lists"].push_back(absl::StrFormat("%016x", report.lists));
    out["seconds"].push_back(report.seconds);
  }
  return {{"steps", out}};
}

Json RunSteps(int64_t count, Engine& engine) {
  std::vector<StepReport> reports;
  for (int64_t i = 0; i < count; ++i) reports.push_back(engine.Run());
  return Describe(reports);
}

// The parent keeps its threads, connection and mapping, and does nothing more.
Json ForkProcess(bool in_step, Engine& engine) {
  const pid_t parent = getpid();
  StepReport report;
  std::optional<Step> step;
  if (in_step) step.emplace(engine.RunUpToEnd(&report));
  if (fork() > 0) {
    for (;;) pause();
  }
  if (step.has_value()) step->End();
  return {{"parent", parent}, {"child", getpid()}};
}

std::optional<Json> RunSessionCommand(const Words& words, Engine& engine) {
  const std::string& command = words[0];
  if (command == "ready") {
    return Describe(engine.session().WaitUntilReady(absl::Milliseconds(Number(words, 1))));
  }
  if (command == "status") return Describe(engine.session().status());
  if (command == "stats") return Describe(engine.session().stats());
  if (command == "step") return RunSteps(Number(words, 1), engine);
  if (command == "drop_step") {
    StepReport report;
    const Step dropped = engine.RunUpToEnd(&report);
    return Describe(std::vector<StepReport>{report});
  }
  if (command == "fork_process") return ForkProcess(false, engine);
  if (command == "fork_process_in_step") return ForkProcess(true, engine);
  return std::nullopt;
}

Json RunRequestCommand(const Words& words, Engine& engine) {
  const std::string& command = words[0];
  if (words.size() < 2) return BadCommand(words);
  const std::string& key = words[1];
  if (command == "open") return Describe(engine.Open(key, Number(words, 2), Number(words, 3)));
  if (command == "poison") {
    const std::map<std::string, Poison> kinds = {{"nan", Poison::kNan},
                                                 {"inf", Poison::kInf},
                                                 {"huge", Poison::kHuge},
                                                 {"none", Poison::kNone}};
    engine.indexer().set_poison(kinds.at(key));
    return Json::object();
  }
  Engine::Sequence* sequence = engine.Find(key);
  if (sequence == nullptr) return BadCommand(words);
  if (command == "fork" && words.size() == 4) {
    return Describe(engine.Fork(*sequence, words[2], Number(words, 3)));
  }
  if (command == "extend") {
    return Describe(engine.session().Extend(sequence->request, Number(words, 2)));
  }
  if (command == "move") sequence->position = Number(words, 2);
  if (command == "close") {
    engine.Close(key);
    return Json::object();
  }
  return command == "request" || command == "move" ? Describe(*sequence) : BadCommand(words);
}

}  // namespace

Json RunCommand(const std::string& line, Engine& engine) {
  const Words words = absl::StrSplit(line, ' ');
  if (std::optional<Json> reply = RunSessionCommand(words, engine)) return *std::move(reply);
  return RunRequestCommand(words, engine);
}

}  // namespace spin::scripted

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/command.h"
#include "client/cli/interrupt.h"
#include "client/cli/same_file.h"
#include "client/cli/score_check.h"
#include "client/cli/terminal/numbers.h"
#include "client/cli/terminal/progress.h"
#include "client/cli/tune/report.h"
#include "client/cli/tune/tune_flags.h"
#include "client/cli/write_file.h"
#include "policy_file/policy_file.h"
#include "prediction/calibrate.h"
#include "trace/trace.h"

namespace spin::cli {
namespace {

constexpr int kProgressUnits = 1000;
constexpr double kMostBadScores = 0.1;  // NaN or infinite; budgets learnt from more mean nothing

constexpr char kFooter[] =
    R"(Learns from recorded traces how many blocks each layer needs, offline and without spind: the same
total is better spent unequally. The policy file is for 'spinctl replay --policy', 'spind --policy'
and 'spinctl policy set --file'. With several traces, each is also replayed with budgets that learnt
from the others only; that is what to expect of other text. The budgets are for the layers of the
traces and fit sessions with exactly those: record all layers of the model.

Examples:
  spinctl tune chat.safetensors code.safetensors --topk 2048 --target-miss 0.01 --out policy.json
  spinctl tune chat.safetensors --topk 2048 --target-sparsity 0.6 --uniform --out policy.json)";

absl::StatusOr<std::vector<trace::Trace>> Load(const TuneFlags& flags) {
  std::vector<trace::Trace> traces;
  for (const std::string& path : flags.traces) {
    absl::StatusOr<trace::Trace> trace = trace::LoadTrace(path);
    if (!trace.ok()) return absl::InvalidArgumentError(trace.status().message());
    if (flags.steps > trace->steps) {
      return absl::InvalidArgumentError(
          absl::StrCat("--steps: ", flags.steps, " is more than ", path, " has, ", trace->steps));
    }
    if (flags.steps != 0) trace->KeepSteps(flags.steps);
    traces.push_back(*std::move(trace));
  }
  return traces;
}

absl::StatusOr<std::vector<trace::ScoreCount>> CountAll(const TuneFlags& flags,
                                                        const std::vector<trace::Trace>& traces) {
  std::vector<trace::ScoreCount> counts;
  for (size_t t = 0; t < traces.size(); ++t) {
    const auto count = CheckScores("tune", flags.traces[t], traces[t], traces[t].steps);
    if (!count.ok()) return count.status();
    if (count->BadShare() > kMostBadScores) {
      return absl::InvalidArgumentError(
          absl::StrCat(flags.traces[t], ": ", FormatPercent(count->BadShare(), 1),
                       " of the scores are NaN or infinite, more than the ",
                       FormatPercent(kMostBadScores, 0), " that budgets can be learnt from"));
    }
    counts.push_back(*count);
  }
  return counts;
}

absl::StatusOr<prediction::Calibrated> Learn(const TuneFlags& flags,
                                             const std::vector<trace::Trace>& traces) {
  prediction::ReplayOptions replay = flags.replay;
  replay.predictor = prediction::FindPredictor(flags.predictor)->make;
  replay.threads = flags.threads != 0
                       ? flags.threads
                       : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  Progress progress("tune", kProgressUnits, DetectTerminal(STDERR_FILENO), stderr, absl::Now());
  const prediction::CalibrationGoal goal = {flags.target_sparsity, flags.target_miss};
  auto results = prediction::Calibrate(traces, {&goal, 1}, replay, [&](double share) {
    progress.Update(static_cast<int64_t>(share * kProgressUnits), absl::Now());
    return CheckInterrupt();
  });
  if (!results.ok()) return results.status();
  return std::move(results->front());
}

absl::Status RunTune(const TuneFlags& flags) {
  if (!flags.target_miss && !flags.target_sparsity) {
    return absl::InvalidArgumentError("say what to aim at: --target-miss or --target-sparsity");
  }
  if (flags.target_miss && *flags.target_miss == 0) {
    return absl::InvalidArgumentError(
        "--target-miss: 0 is not in (0, 1); to miss nothing, keep all");
  }
  absl::Status status = CheckDistinctTraces(flags.traces);
  if (status.ok() && !flags.out.empty()) status = CheckOutput(flags.out, flags.traces);
  if (!status.ok()) return status;
  const auto traces = Load(flags);
  if (!traces.ok()) return traces.status();
  const auto scores = CountAll(flags, *traces);
  if (!scores.ok()) return scores.status();
  const auto learnt = Learn(flags, *traces);
  if (!learnt.ok()) return learnt.status();
  const TuneReport report = {flags, traces->front().layer_numbers, *learnt, *scores};
  if (!flags.out.empty()) {
    const std::string text = policy_file::Format(TunedPolicy(report), TuneOrigin(report));
    if (status = WriteFile(flags.out, text); !status.ok()) return status;
  }
  return Print(flags.common.json ? TuneJson(report)
                                 : TuneText(report, DetectTerminal(STDOUT_FILENO)));
}

}  // namespace

void AddTuneCommand(CLI::App* app, Action* action) {
  const auto flags = std::make_shared<TuneFlags>();
  CLI::App* command =
      app->add_subcommand("tune", "Find the policy for your model from recorded traces");
  command->footer(kFooter);
  AddTuneFlags(command, flags.get());
  command->callback([=] { *action = [flags] { return RunTune(*flags); }; });
}

}  // namespace spin::cli

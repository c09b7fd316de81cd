// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/command.h"
#include "client/cli/eval/eval_flags.h"
#include "client/cli/eval/report.h"
#include "client/cli/interrupt.h"
#include "client/cli/same_file.h"
#include "client/cli/score_check.h"
#include "client/cli/terminal/progress.h"
#include "client/cli/write_file.h"
#include "prediction/calibrate.h"
#include "trace/trace.h"

namespace spin::cli {
namespace {

constexpr int kProgressUnits = 1000;

constexpr char kFooter[] =
    R"(Plays recorded traces through every way to predict blocks, offline and without spind, and compares
what each misses at each budget. The first step scans everything and is not counted.

  miss       share of the true top-K in blocks that were not kept
  signal     how well all scores of the past agree with those that come, before any budget
  pooling    A0 chooses slots, A1 blocks by their best slot (Spin), A2 averages block maxima
  drafts     one list for several verifier rows: their exact union, or Spin's shared list

The quick answer, the recommendation, is --study budgets; the other studies take most of the time.
It is what 'spinctl tune' finds with the same flags. The tables are without exploration, and it is
with that of spind (5 %), unless --exploration says otherwise for both.

Examples:
  spinctl eval testdata/traces/small-8k.safetensors --topk 128 --study budgets
  spinctl eval a.safetensors b.safetensors --topk 512 --report quality.html
  spinctl eval a.safetensors --topk 512 --sparsity 0.4,0.6 --study none --json)";

// The names by which traces are told apart.
std::string NameOf(const std::string& path, const std::vector<std::string>& all) {
  const auto stem = [](const std::string& p) { return std::filesystem::path(p).stem().string(); };
  const auto same = [&](const std::string& other) { return stem(other) == stem(path); };
  return std::count_if(all.begin(), all.end(), same) > 1 ? path : stem(path);
}

absl::Status InTrace(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<EvaluatedTrace> EvaluateOne(const EvalFlags& flags, const std::string& path) {
  const absl::StatusOr<trace::Trace> trace = trace::LoadTrace(path);
  if (!trace.ok()) return absl::InvalidArgumentError(trace.status().message());
  const prediction::EvaluationOptions options = EvaluationOptionsFor(flags, trace->layers);
  const int steps = options.steps == 0 ? trace->steps : options.steps;
  const std::string name = NameOf(path, flags.traces);
  Progress progress(absl::StrCat("eval ", name),
                    int64_t{steps} * prediction::EvaluationWalks(options),
                    DetectTerminal(STDERR_FILENO), stderr, absl::Now());
  absl::StatusOr<prediction::Evaluation> evaluation =
      prediction::Evaluate(*trace, options, [&](int64_t done) {
        progress.Update(done, absl::Now());
        return CheckInterrupt();
      });
  if (!evaluation.ok()) return InTrace(path, evaluation.status());
  const auto scores = CheckScores("eval", path, *trace, steps);
  if (!scores.ok()) return scores.status();
  return EvaluatedTrace{
      name, path, trace->first_query, trace->layer_numbers, *std::move(evaluation), *scores};
}

bool SameLayers(const std::vector<EvaluatedTrace>& traces) {
  return std::all_of(traces.begin(), traces.end(), [&](const EvaluatedTrace& trace) {
    return trace.layer_numbers == traces[0].layer_numbers;
  });
}

absl::Status Recommend(const EvalFlags& flags, EvalReport* report) {
  if (!Asked(flags, "budgets") || flags.target_miss == 0 || !SameLayers(report->traces)) {
    return absl::OkStatus();
  }
  std::vector<trace::Trace> traces;
  for (const std::string& path : flags.traces) {
    absl::StatusOr<trace::Trace> trace = trace::LoadTrace(path);
    if (!trace.ok()) return absl::InvalidArgumentError(trace.status().message());
    if (flags.options.steps != 0) trace->KeepSteps(flags.options.steps);
    traces.push_back(*std::move(trace));
  }
  Progress progress("budgets", kProgressUnits, DetectTerminal(STDERR_FILENO), stderr, absl::Now());
  const prediction::CalibrationGoal goal = {{}, flags.target_miss};
  auto results =
      prediction::Calibrate(traces, {&goal, 1}, RecommendationOptionsFor(flags), [&](double share) {
        progress.Update(static_cast<int64_t>(share * kProgressUnits), absl::Now());
        return CheckInterrupt();
      });
  if (!results.ok()) return results.status();
  report->recommended = std::move(results->front());
  return absl::OkStatus();
}

absl::Status CheckEvalFlags(const EvalFlags& flags) {
  const bool budgets = flags.policy.has_sparsity() || !flags.policy.layer_sparsity().empty();
  if (!flags.policy_path.empty() && !budgets) {
    return absl::InvalidArgumentError(
        "--policy: has neither sparsity nor layer_sparsity; there is no budget to evaluate");
  }
  if (absl::Status status = CheckDistinctTraces(flags.traces); !status.ok()) return status;
  if (flags.report.empty()) return absl::OkStatus();
  std::vector<std::string> inputs = flags.traces;
  inputs.push_back(flags.policy_path);
  return CheckOutput(flags.report, inputs);
}

absl::Status RunEval(const EvalFlags& flags) {
  if (absl::Status status = CheckEvalFlags(flags); !status.ok()) return status;
  EvalReport report = {flags, {}, std::nullopt};
  for (const std::string& path : flags.traces) {
    absl::StatusOr<EvaluatedTrace> trace = EvaluateOne(flags, path);
    if (!trace.ok()) return trace.status();
    report.traces.push_back(*std::move(trace));
  }
  if (absl::Status status = Recommend(flags, &report); !status.ok()) return status;
  if (!flags.report.empty()) {
    if (absl::Status status = WriteFile(flags.report, EvalHtml(report)); !status.ok())
      return status;
  }
  if (flags.common.json) return Print(EvalJson(report));
  if (flags.csv) return Print(EvalCsv(report));
  return Print(EvalText(report, DetectTerminal(STDOUT_FILENO)));
}

}  // namespace

void AddEvalCommand(CLI::App* app, Action* action) {
  const auto flags = std::make_shared<EvalFlags>();
  CLI::App* command =
      app->add_subcommand("eval", "Compare predictors on recorded traces, and what each misses");
  command->footer(kFooter);
  AddEvalFlags(command, flags.get());
  command->callback([=] {
    if (command->count("--policy") > 0) {
      flags->policy_path = command->get_option("--policy")->results().back();
    }
    *action = [flags] { return RunEval(*flags); };
  });
}

}  // namespace spin::cli

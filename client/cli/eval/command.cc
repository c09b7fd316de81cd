// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/command.h"
#include "client/cli/eval/eval_flags.h"
#include "client/cli/eval/report.h"
#include "client/cli/interrupt.h"
#include "client/cli/terminal/progress.h"
#include "trace/trace.h"

namespace spin::cli {
namespace {

constexpr char kFooter[] =
    R"(Plays recorded traces through every way to predict blocks, offline and without spind, and compares
what each misses at each budget. The first step scans everything and is not counted.

  miss       share of the true top-K in blocks that were not kept
  signal     how well all scores of the past agree with those that come, before any budget
  pooling    A0 chooses slots, A1 blocks by their best slot (Spin), A2 averages block maxima
  drafts     one list for several verifier rows: their exact union, or Spin's shared list

Examples:
  spinctl eval testdata/traces/small-8k.safetensors --topk 128
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
  const prediction::EvaluationOptions options = EvaluationOptionsFor(flags);
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
  return EvaluatedTrace{name, path, trace->first_query, trace->layer_numbers,
                        *std::move(evaluation)};
}

absl::Status RunEval(const EvalFlags& flags) {
  EvalReport report = {flags, {}};
  for (const std::string& path : flags.traces) {
    absl::StatusOr<EvaluatedTrace> trace = EvaluateOne(flags, path);
    if (!trace.ok()) return trace.status();
    report.traces.push_back(*std::move(trace));
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
  command->callback([=] { *action = [flags] { return RunEval(*flags); }; });
}

}  // namespace spin::cli

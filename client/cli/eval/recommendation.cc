// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/eval/report.h"
#include "client/cli/eval/report_data.h"
#include "client/cli/json.h"
#include "client/cli/shell_word.h"
#include "client/cli/terminal/numbers.h"
#include "prediction/calibrate.h"

namespace spin::cli {

namespace {

using prediction::MeanMiss;
using prediction::WorstP99;

// What was given to eval and is not the default of tune: both must come to the same budgets.
std::string OtherFlags(const EvalReport& report) {
  const prediction::ReplayOptions asked = RecommendationOptionsFor(report.flags), defaults;
  std::string text;
  const auto add = [&](bool differs, const auto&... words) {
    if (differs) absl::StrAppend(&text, " ", words...);
  };
  add(report.flags.options.steps != 0, "--steps ", report.flags.options.steps);
  add(asked.block != defaults.block, "--block ", asked.block);
  add(asked.exploration != defaults.exploration, "--exploration ", asked.exploration);
  add(asked.decay != defaults.decay, "--alpha ", asked.decay);
  add(asked.seed != defaults.seed, "--seed ", asked.seed);
  add(asked.pin_first_block, "--pin-first-block");
  return text;
}

std::string TuneCommand(const EvalReport& report) {
  std::string command = absl::StrCat(ShellWord(InvokedAs()), " tune");
  for (const std::string& path : report.flags.traces) {
    absl::StrAppend(&command, " ", ShellWord(path));
  }
  absl::StrAppend(&command, " --topk ", report.flags.topk, OtherFlags(report));
  return absl::StrCat(command, " --target-miss ", report.flags.target_miss, " --out policy.json");
}

// Of every trace, beside what budgets from the others would have missed on it.
Json TracesJson(const EvalReport& report) {
  const prediction::Calibrated& learnt = *report.recommended;
  Json json = Json::array();
  for (size_t t = 0; t < report.traces.size(); ++t) {
    const prediction::MissSummary& miss = learnt.calibrated[t];
    Json row = {{"name", report.traces[t].name},
                {"sparsity", miss.sparsity},
                {"miss_mean", miss.mean},
                {"miss_p99", miss.p99}};
    if (!learnt.held_out.empty()) {
      row["held_out_miss_mean"] = learnt.held_out[t].mean;
      row["held_out_miss_p99"] = learnt.held_out[t].p99;
    }
    json.push_back(std::move(row));
  }
  return json;
}

}  // namespace

Json RecommendedJson(const EvalReport& report) {
  if (!report.recommended.has_value()) return nullptr;
  const prediction::Calibrated& learnt = *report.recommended;
  Json json = {{"target_miss", report.flags.target_miss},
               {"exploration", RecommendationOptionsFor(report.flags).exploration},
               {"sparsity", learnt.total_sparsity},
               {"layer_sparsity", learnt.layer_sparsity},
               {"miss_mean", MeanMiss(learnt.calibrated)},
               {"miss_p99", WorstP99(learnt.calibrated)},
               {"uniform_sparsity", learnt.uniform_sparsity},
               {"uniform_miss_mean", MeanMiss(learnt.uniform)},
               {"uniform_miss_mean_at_same_sparsity", MeanMiss(learnt.uniform_total)},
               {"traces", TracesJson(report)},
               {"command", TuneCommand(report)}};
  if (!learnt.held_out.empty()) json["held_out_miss_mean"] = MeanMiss(learnt.held_out);
  return json;
}

std::string RecommendedText(const EvalReport& report) {
  if (!report.recommended.has_value()) return "";
  const prediction::Calibrated& learnt = *report.recommended;
  const prediction::ReplayOptions options = RecommendationOptionsFor(report.flags);
  std::string text = absl::StrFormat(
      "Recommended for a mean miss of %s, with %s exploration%s: budgets for each layer.\n"
      "  skip %s of all blocks, miss %s of the top-K (p99 up to %s)",
      FormatPercent(report.flags.target_miss, 2), absl::StrCat(100 * options.exploration, " %"),
      report.flags.exploration ? "" : " as spind's default",
      FormatPercent(learnt.total_sparsity, 1), FormatPercent(MeanMiss(learnt.calibrated), 2),
      FormatPercent(WorstP99(learnt.calibrated), 2));
  absl::StrAppend(&text, learnt.held_out.empty()
                             ? "; in-sample: a second\n  trace shows what to expect of other text"
                             : absl::StrCat(";\n  ", FormatPercent(MeanMiss(learnt.held_out), 2),
                                            " on a trace when the budgets are from the others"));
  return absl::StrCat(text, "\n  one sparsity for all layers could skip ",
                      FormatPercent(learnt.uniform_sparsity, 1), "\n  ", TuneCommand(report), "\n");
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/eval/report.h"
#include "client/cli/eval/report_data.h"
#include "client/cli/json.h"
#include "client/cli/terminal/numbers.h"
#include "prediction/calibrate.h"

namespace spin::cli {

std::string TuneCommand(const EvalReport& report) {
  std::string command = absl::StrCat(InvokedAs(), " tune");
  for (const std::string& path : report.flags.traces) absl::StrAppend(&command, " ", path);
  return absl::StrFormat("%s --topk %d --target-miss %g --out policy.json", command,
                         report.flags.topk, report.flags.target_miss);
}

Json RecommendedJson(const EvalReport& report) {
  if (!report.recommended.has_value()) return nullptr;
  const prediction::Calibrated& learnt = *report.recommended;
  Json json = {{"target_miss", report.flags.target_miss},
               {"sparsity", learnt.total_sparsity},
               {"layer_sparsity", learnt.layer_sparsity},
               {"miss_mean", prediction::MeanMiss(learnt.calibrated)},
               {"uniform_sparsity", learnt.uniform_sparsity},
               {"uniform_miss_mean", prediction::MeanMiss(learnt.uniform)},
               {"uniform_miss_mean_at_same_sparsity", prediction::MeanMiss(learnt.uniform_total)},
               {"command", TuneCommand(report)}};
  if (!learnt.held_out.empty()) json["held_out_miss_mean"] = prediction::MeanMiss(learnt.held_out);
  return json;
}

std::string RecommendedText(const EvalReport& report) {
  if (!report.recommended.has_value()) return "";
  const prediction::Calibrated& learnt = *report.recommended;
  std::string text = absl::StrFormat(
      "Recommended for a mean miss of %s: budgets for each layer, %s of all blocks skipped, %s "
      "missed",
      FormatPercent(report.flags.target_miss, 2), FormatPercent(learnt.total_sparsity, 1),
      FormatPercent(prediction::MeanMiss(learnt.calibrated), 2));
  if (!learnt.held_out.empty()) {
    absl::StrAppend(&text, " (", FormatPercent(prediction::MeanMiss(learnt.held_out), 2),
                    " with budgets from the other traces)");
  }
  return absl::StrCat(text,
                      ".\nOne sparsity for all layers: ", FormatPercent(learnt.uniform_sparsity, 1),
                      ".\n  ", TuneCommand(report), "\n");
}

}  // namespace spin::cli

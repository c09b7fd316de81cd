// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/tune/report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/command.h"
#include "client/cli/json.h"
#include "client/cli/shell_word.h"
#include "client/cli/terminal/color.h"
#include "client/cli/terminal/numbers.h"
#include "client/cli/terminal/table.h"

namespace spin::cli {
namespace {

using prediction::MeanMiss;
using prediction::MissSummary;
using prediction::WorstP99;

const std::vector<MissSummary>& Chosen(const TuneReport& report) {
  return report.flags.uniform ? report.learnt.uniform : report.learnt.calibrated;
}

double ChosenTotal(const TuneReport& report) {
  return report.flags.uniform ? report.learnt.uniform_sparsity : report.learnt.total_sparsity;
}

// What to expect on text that it did not learn from; unset for a single trace.
bool HasHeldOut(const TuneReport& report) {
  return !report.flags.uniform && !report.learnt.held_out.empty();
}

Json TraceJson(const TuneReport& report, size_t t) {
  const auto miss = [](const MissSummary& of) {
    return Json{{"mean", of.mean}, {"p99", of.p99}, {"sparsity", of.sparsity}};
  };
  Json json = {{"path", report.flags.traces[t]},
               {"miss", miss(Chosen(report)[t])},
               {"uniform_same_total", miss(report.learnt.uniform_total[t])},
               {"nan_scores", report.scores[t].nan},
               {"infinite_scores", report.scores[t].infinite}};
  if (HasHeldOut(report)) json["held_out"] = miss(report.learnt.held_out[t]);
  return json;
}

Json ExpectationJson(const TuneReport& report) {
  Json json = {{"sparsity", ChosenTotal(report)},
               {"miss_mean", MeanMiss(Chosen(report))},
               {"miss_p99", WorstP99(Chosen(report))}};
  if (HasHeldOut(report)) json["held_out_miss_mean"] = MeanMiss(report.learnt.held_out);
  json["uniform_miss_mean_at_same_sparsity"] =
      MeanMiss(report.flags.uniform ? report.learnt.uniform : report.learnt.uniform_total);
  json["uniform_sparsity_at_same_goal"] = report.learnt.uniform_sparsity;
  return json;
}

Json OriginJson(const TuneReport& report) {
  const TuneFlags& flags = report.flags;
  Json json = {{"made_by", "spinctl tune " SPIN_VERSION},
               {"traces", flags.traces},
               {"predictor", flags.predictor},
               {"topk", flags.replay.topk},
               {"block", flags.replay.block},
               {"layer_numbers", report.layer_numbers}};
  if (flags.target_miss) json["target_miss"] = *flags.target_miss;
  if (flags.target_sparsity) json["target_sparsity"] = *flags.target_sparsity;
  json["expected"] = ExpectationJson(report);
  return json;
}

std::string LayerTable(const TuneReport& report, const Paint& paint) {
  Table table({{"layer"}, {"aimed at"}, {"miss mean"}, {"uniform's miss"}});
  const prediction::Calibrated& learnt = report.learnt;
  const auto mean = [](const std::vector<MissSummary>& traces, size_t layer) {
    double sum = 0;
    for (const MissSummary& miss : traces) sum += miss.layers[layer];
    return FormatPercent(sum / static_cast<double>(traces.size()), 3);
  };
  for (size_t layer = 0; layer < report.layer_numbers.size(); ++layer) {
    table.AddRow({absl::StrCat(report.layer_numbers[layer]),
                  FormatPercent(learnt.layer_sparsity[layer], 1), mean(learnt.calibrated, layer),
                  mean(learnt.uniform_total, layer)});
  }
  table.AddRule();
  table.AddRow({"total", FormatPercent(learnt.total_sparsity, 1),
                FormatPercent(MeanMiss(learnt.calibrated), 3),
                FormatPercent(MeanMiss(learnt.uniform_total), 3)});
  return table.Render(paint);
}

std::string TraceTable(const TuneReport& report, const Paint& paint) {
  Table table({{"trace", Table::Align::kLeft},
               {"realised"},
               {"miss mean"},
               {"miss p99"},
               {"learnt from the others"},
               {"uniform, same total"}});
  for (size_t t = 0; t < report.flags.traces.size(); ++t) {
    const MissSummary& miss = Chosen(report)[t];
    table.AddRow({report.flags.traces[t], FormatPercent(miss.sparsity, 1),
                  FormatPercent(miss.mean, 3), FormatPercent(miss.p99, 2),
                  HasHeldOut(report) ? FormatPercent(report.learnt.held_out[t].mean, 3) : "-",
                  FormatPercent(report.learnt.uniform_total[t].mean, 3)});
  }
  return table.Render(paint);
}

std::string Expectation(const TuneReport& report) {
  std::string text = absl::StrFormat(
      "Expect: skip %s of all blocks, miss %s of the top-K (p99 up to %s)",
      FormatPercent(ChosenTotal(report), 1), FormatPercent(MeanMiss(Chosen(report)), 2),
      FormatPercent(WorstP99(Chosen(report)), 2));
  if (HasHeldOut(report)) {
    absl::StrAppend(&text, ";\non text that was not among the traces ",
                    FormatPercent(MeanMiss(report.learnt.held_out), 2), " (p99 up to ",
                    FormatPercent(WorstP99(report.learnt.held_out), 2), ")");
  } else if (report.flags.traces.size() == 1) {
    absl::StrAppend(
        &text, ".\nThat is in-sample: give a second trace to see what to expect of other text");
  }
  if (report.flags.target_miss && !report.flags.uniform) {
    absl::StrAppend(&text, ".\nIt plans below the ", FormatPercent(*report.flags.target_miss, 2),
                    " aimed at on purpose, since text that is new misses more");
  }
  if (report.flags.uniform) return text + ".\n";
  const std::string uniform = FormatPercent(report.learnt.uniform_sparsity, 1);
  return absl::StrCat(text, ".\n",
                      report.flags.target_miss
                          ? absl::StrCat("One sparsity for all layers would allow ", uniform, ".\n")
                          : absl::StrCat("One sparsity for all layers would miss ",
                                         FormatPercent(MeanMiss(report.learnt.uniform), 2), ".\n"));
}

std::string Next(const TuneReport& report) {
  const std::string& out = report.flags.out;
  if (out.empty()) return "Nothing was written; --out FILE writes the policy.\n";
  const std::string fits =
      report.flags.uniform
          ? std::string()
          : absl::StrCat("Its ", report.layer_numbers.size(), " budgets are for layers ",
                         absl::StrJoin(report.layer_numbers, ", "),
                         ":\na session must have exactly these, so a model needs traces of all of "
                         "its layers.\n");
  return absl::StrCat("Wrote ", out, ". ", fits, "Try it:\n  ", ShellWord(InvokedAs()),
                      " replay --trace ", ShellWord(report.flags.traces.front()), " --topk ",
                      report.flags.replay.topk, " --policy ", ShellWord(out), "\n");
}

}  // namespace

v1::Policy TunedPolicy(const TuneReport& report) {
  v1::Policy policy;
  policy.set_budget_mode(v1::BUDGET_MODE_FIXED);
  policy.set_sparsity(ChosenTotal(report));
  if (!report.flags.uniform) {
    for (const double sparsity : report.learnt.layer_sparsity) policy.add_layer_sparsity(sparsity);
  }
  policy.set_exploration(report.flags.replay.exploration);
  policy.set_decay(report.flags.replay.decay);
  policy.set_pin_first_block(report.flags.replay.pin_first_block);
  return policy;
}

std::string TuneOrigin(const TuneReport& report) { return Dump(OriginJson(report)); }

std::string TuneJson(const TuneReport& report) {
  Json json = OriginJson(report);
  json["uniform"] = report.flags.uniform;
  json["sparsity"] = ChosenTotal(report);
  json["layer_sparsity"] =
      report.flags.uniform
          ? std::vector<double>(report.layer_numbers.size(), report.learnt.uniform_sparsity)
          : report.learnt.layer_sparsity;
  Json traces = Json::array();
  for (size_t t = 0; t < report.flags.traces.size(); ++t) traces.push_back(TraceJson(report, t));
  json["replayed"] = std::move(traces);
  json["out"] = report.flags.out;
  return Dump(json);
}

std::string TuneText(const TuneReport& report, const Terminal& terminal) {
  const Paint paint(terminal.color);
  return absl::StrCat(report.flags.uniform ? "" : LayerTable(report, paint) + "\n",
                      TraceTable(report, paint), "\n", Expectation(report), Next(report));
}

}  // namespace spin::cli

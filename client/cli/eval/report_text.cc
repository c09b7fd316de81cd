// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/eval/report.h"
#include "client/cli/eval/report_data.h"
#include "client/cli/terminal/color.h"
#include "client/cli/terminal/numbers.h"
#include "client/cli/terminal/table.h"
#include "prediction/predictor.h"

namespace spin::cli {
namespace {

using prediction::Measured;
using prediction::MissSummary;
using Cell = std::function<std::string(const MissSummary&)>;

std::string MeanAndP99(const MissSummary& miss) {
  return absl::StrCat(FormatPercent(miss.mean, 3), " (", FormatPercent(miss.p99, 1), ")");
}

std::string Mean(const MissSummary& miss) { return FormatPercent(miss.mean, 3); }

std::string MeanAtSparsity(const MissSummary& miss) {
  return absl::StrCat(FormatPercent(miss.mean, 3), " at ", FormatPercent(miss.sparsity, 1));
}

std::string RowName(const Measured& row) {
  if (row.name.empty()) return absl::StrFormat("%g", row.knob);
  const prediction::NamedPredictor* predictor = prediction::FindPredictor(row.name);
  return predictor == nullptr ? row.name : predictor->title;
}

std::string ColumnName(double target) {
  return std::isnan(target) ? "per layer" : absl::StrCat("skip ", FormatPercent(target, 0));
}

// Rows by name or knob, columns by target, in the order in which they come.
std::string Pivot(const std::string& title, const std::vector<Measured>& measured, const Cell& cell,
                  const Paint& paint) {
  std::vector<std::string> names, targets;
  const auto index = [](std::vector<std::string>* of, const std::string& key) {
    const auto found = std::find(of->begin(), of->end(), key);
    if (found == of->end()) of->push_back(key);
    return static_cast<size_t>(std::find(of->begin(), of->end(), key) - of->begin());
  };
  std::vector<std::vector<std::string>> cells;
  for (const Measured& row : measured) {
    const size_t r = index(&names, RowName(row)), c = index(&targets, ColumnName(row.target));
    cells.resize(names.size());
    cells[r].resize(std::max(cells[r].size(), c + 1));
    cells[r][c] = cell(row.miss);
  }
  std::vector<Table::Column> columns = {{title, Table::Align::kLeft}};
  for (const std::string& target : targets) columns.push_back({target});
  Table table(columns);
  for (size_t r = 0; r < names.size(); ++r) {
    cells[r].insert(cells[r].begin(), names[r]);
    table.AddRow(cells[r]);
  }
  return table.Render(paint);
}

std::string Heading(const EvalReport& report, const EvaluatedTrace& trace) {
  return absl::StrFormat(
      "%s: %s slots, %d layers, %d steps; top-K %d, blocks of %d, exploration %g %%\n", trace.path,
      FormatCount(trace.evaluation.slots), trace.layer_numbers.size(), trace.evaluation.steps,
      report.flags.topk, report.flags.options.block, 100 * ExplorationOf(report.flags));
}

std::string Signals(const EvaluatedTrace& trace, const Paint& paint) {
  Table table({{"signal", Table::Align::kLeft}, {"Pearson"}, {"top-K recall"}});
  for (const prediction::MeasuredSignal& signal : trace.evaluation.signals) {
    const auto* predictor = prediction::FindPredictor(prediction::SignalName(signal.kind));
    table.AddRow({predictor == nullptr ? prediction::SignalName(signal.kind) : predictor->title,
                  absl::StrFormat("%.3f", signal.summary.pearson),
                  FormatPercent(signal.summary.recall, 1)});
  }
  return table.Render(paint);
}

// Spin's own layers.
std::string Layers(const EvaluatedTrace& trace, const Paint& paint) {
  std::vector<Measured> rows;
  for (size_t layer = 0; layer < trace.layer_numbers.size(); ++layer) {
    for (const Measured& row : trace.evaluation.predictors) {
      if (row.name != "spin") continue;
      MissSummary miss;
      miss.mean = row.miss.layers[layer];
      rows.push_back({"", static_cast<double>(trace.layer_numbers[layer]), row.target, miss});
    }
  }
  return Pivot("Spin by layer: miss mean", rows, Mean, paint);
}

std::string Drafts(const EvaluatedTrace& trace, const Paint& paint) {
  Table table({{"drafts"},
               {"accepted"},
               {"tokens a round"},
               {"target"},
               {"union: miss at sparsity"},
               {"shared list"},
               {"first row observed"}});
  for (const prediction::MeasuredDrafts& row : trace.evaluation.drafts) {
    table.AddRow({absl::StrCat(row.drafts), FormatPercent(row.acceptance, 0),
                  absl::StrFormat("%.2f", row.tokens_per_round), ColumnName(row.target),
                  MeanAtSparsity(row.exact_union), MeanAtSparsity(row.shared),
                  MeanAtSparsity(row.shared_first_row)});
  }
  return table.Render(paint);
}

std::string TraceText(const EvalReport& report, const EvaluatedTrace& trace, const Paint& paint) {
  const prediction::Evaluation& evaluation = trace.evaluation;
  std::string out = Heading(report, trace);
  const auto append = [&](bool there, const std::string& table) {
    if (there) absl::StrAppend(&out, "\n", table);
  };
  append(!evaluation.signals.empty(), Signals(trace, paint));
  append(true, Pivot("predictor: miss mean (p99)", evaluation.predictors, MeanAndP99, paint));
  append(true, Layers(trace, paint));
  append(!evaluation.pooling.empty(),
         Pivot("pooling: miss at sparsity", evaluation.pooling, MeanAtSparsity, paint));
  append(!evaluation.exploration.empty(),
         Pivot("exploration: miss mean", evaluation.exploration, Mean, paint));
  append(!evaluation.audits.empty(), Pivot("a step in so many scored in full: miss at sparsity",
                                           evaluation.audits, MeanAtSparsity, paint));
  append(!evaluation.decay.empty(), Pivot("alpha: miss mean", evaluation.decay, Mean, paint));
  append(!evaluation.drafts.empty(), Drafts(trace, paint));
  return out;
}

}  // namespace

std::string EvalText(const EvalReport& report, const Terminal& terminal) {
  const Paint paint(terminal.color);
  std::string out;
  for (const EvaluatedTrace& trace : report.traces) {
    absl::StrAppend(&out, out.empty() ? "" : "\n", TraceText(report, trace, paint));
  }
  const std::string recommended = RecommendedText(report);
  return absl::StrCat(recommended, recommended.empty() ? "" : "\n", out);
}

}  // namespace spin::cli

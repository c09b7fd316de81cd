// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <nlohmann/json.hpp>

#include <cmath>

#include "absl/strings/str_format.h"
#include "client/cli/eval/report.h"
#include "client/cli/eval/report_data.h"
#include "client/cli/json.h"

namespace spin::cli {
namespace {

using prediction::Measured;
using prediction::MissSummary;

Json MissJson(const MissSummary& miss) {
  return {
      {"mean", miss.mean}, {"p99", miss.p99}, {"layers", miss.layers}, {"sparsity", miss.sparsity}};
}

// rho -> name -> miss
Json TableJson(const std::vector<Measured>& table) {
  Json json = Json::object();
  for (const Measured& row : table) json[TargetName(row.target)][row.name] = MissJson(row.miss);
  return json;
}

// knob -> rho -> miss
Json KnobJson(const std::vector<Measured>& table) {
  Json json = Json::object();
  for (const Measured& row : table) {
    json[absl::StrFormat("%g", row.knob)][TargetName(row.target)] = MissJson(row.miss);
  }
  return json;
}

Json SignalsJson(const prediction::Evaluation& evaluation) {
  Json json = Json::object();
  for (const prediction::MeasuredSignal& signal : evaluation.signals) {
    json[prediction::SignalName(signal.kind)] = {{"pearson", signal.summary.pearson},
                                                 {"recall", signal.summary.recall}};
  }
  return json;
}

// rho -> drafts -> acceptance -> how
Json DraftsJson(const prediction::Evaluation& evaluation) {
  Json json = Json::object();
  for (const prediction::MeasuredDrafts& row : evaluation.drafts) {
    Json& at = json[TargetName(row.target)][absl::StrFormat("%d", row.drafts)]
                   [absl::StrFormat("%g", row.acceptance)];
    at["tokens_per_round"] = row.tokens_per_round;
    at["union"] = MissJson(row.exact_union);
    at["shared"] = MissJson(row.shared);
    at["shared_first_row"] = MissJson(row.shared_first_row);
  }
  return json;
}

}  // namespace

std::string TargetName(double target) {
  return std::isnan(target) ? "policy" : absl::StrFormat("%g", target);
}

Json TraceJson(const EvalReport& report, const EvaluatedTrace& trace) {
  const prediction::Evaluation& evaluation = trace.evaluation;
  const prediction::EvaluationOptions& options = report.flags.options;
  Json json = {{"path", trace.path},
               {"first_query", trace.first_query},
               {"layers", trace.layer_numbers.size()},
               {"layer_numbers", trace.layer_numbers},
               {"steps", evaluation.steps},
               {"slots", evaluation.slots},
               {"K", report.flags.topk},
               {"block", options.block},
               {"exploration", ExplorationOf(report.flags)},
               {"alpha", options.decay},
               {"nan_scores", trace.scores.nan},
               {"infinite_scores", trace.scores.infinite}};
  json["signal"] = SignalsJson(evaluation);
  json["miss"] = TableJson(evaluation.predictors);
  json["pooling"] = TableJson(evaluation.pooling);
  json["by_exploration"] = KnobJson(evaluation.exploration);
  json["by_audit_every"] = KnobJson(evaluation.audits);
  json["by_alpha"] = KnobJson(evaluation.decay);
  json["drafts"] = DraftsJson(evaluation);
  return json;
}

std::string EvalJson(const EvalReport& report) {
  Json traces = Json::object();
  for (const EvaluatedTrace& trace : report.traces) traces[trace.name] = TraceJson(report, trace);
  return Dump({{"traces", std::move(traces)}, {"recommended", RecommendedJson(report)}});
}

}  // namespace spin::cli

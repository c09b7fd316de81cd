// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/eval/report.h"

namespace spin::cli {
namespace {

using prediction::Measured;
using prediction::MissSummary;

// Names and paths go through here: RFC 4180.
std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) absl::StrAppend(&quoted, std::string(c == '"' ? 2 : 1, c));
  return quoted + "\"";
}

// NaN has no number.
std::string Number(double value) { return std::isnan(value) ? "" : absl::StrFormat("%.6g", value); }

// A line for the mean over all layers, then one for each layer.
void AppendLines(const EvaluatedTrace& trace, const std::string& key, const MissSummary& miss,
                 std::string* out) {
  const std::string start = absl::StrCat(Quoted(trace.name), ",", key, ",");
  absl::StrAppend(out, start, "all,", Number(miss.sparsity), ",", Number(miss.mean), ",",
                  Number(miss.p99), "\n");
  const size_t silent = trace.layer_numbers.size() - miss.layers.size();  // first layers
  for (size_t i = 0; i < miss.layers.size(); ++i) {
    absl::StrAppend(out, start, trace.layer_numbers[silent + i], ",",
                    Number(miss.layer_sparsity[i]), ",", Number(miss.layers[i]), ",\n");
  }
}

void AppendTable(const EvaluatedTrace& trace, const std::string& study,
                 const std::vector<Measured>& table, std::string* out) {
  for (const Measured& row : table) {
    const std::string name = row.name.empty() ? absl::StrFormat("%g", row.knob) : row.name;
    AppendLines(trace, absl::StrCat(study, ",", name, ",", TargetName(row.target)), row.miss, out);
  }
}

void AppendDrafts(const EvaluatedTrace& trace, std::string* out) {
  for (const prediction::MeasuredDrafts& row : trace.evaluation.drafts) {
    const auto append = [&](const char* how, const MissSummary& miss) {
      AppendLines(trace,
                  absl::StrFormat("drafts,%s d=%d accept=%g,%s", how, row.drafts, row.acceptance,
                                  TargetName(row.target)),
                  miss, out);
    };
    append("union", row.exact_union);
    append("shared", row.shared);
    append("shared_first_row", row.shared_first_row);
  }
}

}  // namespace

std::string EvalCsv(const EvalReport& report) {
  std::string out = "trace,study,name,target,layer,sparsity,miss_mean,miss_p99\n";
  for (const EvaluatedTrace& trace : report.traces) {
    const prediction::Evaluation& evaluation = trace.evaluation;
    AppendTable(trace, "predictor", evaluation.predictors, &out);
    AppendTable(trace, "pooling", evaluation.pooling, &out);
    AppendTable(trace, "exploration", evaluation.exploration, &out);
    AppendTable(trace, "audit_every", evaluation.audits, &out);
    AppendTable(trace, "alpha", evaluation.decay, &out);
    AppendDrafts(trace, &out);
  }
  return out;
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/command.h"
#include "prediction/evaluation.h"
#include "prediction/layer_curves.h"
#include "spin/v1/policy.pb.h"

namespace CLI {
class App;
}

namespace spin::cli {

// What the user asked 'spinctl eval' to do.
struct EvalFlags {
  CommonFlags common;
  std::vector<std::string> traces;
  std::string report;       // HTML file to write; empty: none
  std::string policy_path;  // empty: none
  v1::Policy policy;        // of that file: its budgets are one more setting
  bool csv = false;
  double target_miss = 0.01;  // of the recommendation
  std::optional<double>
      exploration;  // not given: what the tables and the recommendation default to
  int topk = 0;     // 0: not given
  int threads = 0;  // 0: one for each core
  std::vector<std::string> studies = {"signals", "pooling", "exploration", "audits",
                                      "alpha",   "drafts",  "budgets"};
  prediction::EvaluationOptions options;
};

// Flags whose range does not depend on the traces are checked while parsing.
void AddEvalFlags(CLI::App* command, EvalFlags* flags);

// Whether this study was asked for: one of the names of --study.
bool Asked(const EvalFlags& flags, absl::string_view study);

int ThreadsOf(const EvalFlags& flags);

// Of the tables.
double ExplorationOf(const EvalFlags& flags);

// The options of one evaluation, of a trace with so many layers, from the flags.
prediction::EvaluationOptions EvaluationOptionsFor(const EvalFlags& flags, int layers);

// How the recommendation replays: as 'spinctl tune' does with the same flags, and so with the
// exploration of a spind that was told nothing else.
prediction::ReplayOptions RecommendationOptionsFor(const EvalFlags& flags);

}  // namespace spin::cli

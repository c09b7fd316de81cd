// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/command.h"
#include "prediction/evaluation.h"

namespace CLI {
class App;
}

namespace spin::cli {

// What the user asked 'spinctl eval' to do.
struct EvalFlags {
  CommonFlags common;
  std::vector<std::string> traces;
  std::string report;   // HTML file to write; empty: none
  std::string policy;   // policy file whose budgets are one more setting; empty: none
  bool csv = false;
  double target_miss = 0.01;  // of the recommendation
  int topk = 0;               // 0: not given
  int threads = 0;            // 0: one for each core
  std::vector<std::string> studies = {"signals", "pooling", "exploration", "alpha", "drafts"};
  prediction::EvaluationOptions options;
};

// Flags whose range does not depend on the traces are checked while parsing.
void AddEvalFlags(CLI::App* command, EvalFlags* flags);

// The options of one evaluation, from the flags.
prediction::EvaluationOptions EvaluationOptionsFor(const EvalFlags& flags);

}  // namespace spin::cli

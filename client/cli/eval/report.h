// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/cli/eval/eval_flags.h"
#include "client/cli/terminal/terminal.h"
#include "prediction/calibrate.h"
#include "prediction/evaluation.h"
#include "trace/score_count.h"

namespace spin::cli {

// One trace, evaluated.
struct EvaluatedTrace {
  std::string name;  // the file's name without its extension; the path where two would be equal
  std::string path;
  int first_query = 0;
  std::vector<int> layer_numbers;
  prediction::Evaluation evaluation;
  trace::ScoreCount scores;
};

// All that there is to say.
struct EvalReport {
  const EvalFlags& flags;
  std::vector<EvaluatedTrace> traces;
  // Budgets that hold flags.target_miss; unset if not asked for, or if the traces' layers differ.
  std::optional<prediction::Calibrated> recommended;
};

std::string EvalJson(const EvalReport& report);
std::string EvalCsv(const EvalReport& report);
std::string EvalText(const EvalReport& report, const Terminal& terminal);
std::string EvalHtml(const EvalReport& report);

// "0.3"; "policy" for the budgets per layer.
std::string TargetName(double target);

}  // namespace spin::cli

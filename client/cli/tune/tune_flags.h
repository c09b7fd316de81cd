// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/cli/command.h"
#include "prediction/layer_curves.h"

namespace CLI {
class App;
}

namespace spin::cli {

// What the user asked 'spinctl tune' to do.
struct TuneFlags {
  CommonFlags common;
  std::vector<std::string> traces;
  std::optional<double> target_miss, target_sparsity;  // one of both is given
  std::string predictor = "spin";                      // whose misses count
  bool uniform = false;                                // one sparsity for all layers
  std::string out;                                     // policy file; empty: none
  int steps = 0;                                       // the first so many; 0: all
  int threads = 0;                                     // 0: one for each core
  prediction::ReplayOptions replay;                    // but for the predictor
};

// Flags whose range does not depend on the traces are checked while parsing.
void AddTuneFlags(CLI::App* command, TuneFlags* flags);

}  // namespace spin::cli

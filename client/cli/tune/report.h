// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "client/cli/terminal/terminal.h"
#include "client/cli/tune/tune_flags.h"
#include "prediction/calibrate.h"
#include "spin/v1/policy.pb.h"
#include "trace/score_count.h"

namespace spin::cli {

// All that there is to say about what was learnt.
struct TuneReport {
  const TuneFlags& flags;
  const std::vector<int>& layer_numbers;
  const prediction::Calibrated& learnt;
  const std::vector<trace::ScoreCount>& scores;  // [traces]
};

v1::Policy TunedPolicy(const TuneReport& report);

// Where the policy comes from and what to expect of it, for the policy file.
std::string TuneOrigin(const TuneReport& report);

std::string TuneJson(const TuneReport& report);
std::string TuneText(const TuneReport& report, const Terminal& terminal);

}  // namespace spin::cli

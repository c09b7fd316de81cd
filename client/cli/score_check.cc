// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/score_check.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "client/cli/interrupt.h"
#include "client/cli/terminal/numbers.h"

namespace spin::cli {

absl::StatusOr<trace::ScoreCount> CheckScores(const std::string& command, const std::string& path,
                                              const trace::Trace& trace, int steps) {
  absl::StatusOr<trace::ScoreCount> count = trace::CountScores(trace, steps, CheckInterrupt);
  if (count.ok() && count->nan + count->infinite > 0) {
    std::fputs(absl::StrCat("spinctl ", command, ": warning: ", path, ": ",
                            FormatCount(static_cast<uint64_t>(count->nan)), " scores are NaN and ",
                            FormatCount(static_cast<uint64_t>(count->infinite)), " infinite, of ",
                            FormatCount(static_cast<uint64_t>(count->all)),
                            "; what they hide is not measured\n")
                   .c_str(),
               stderr);
  }
  return count;
}

}  // namespace spin::cli

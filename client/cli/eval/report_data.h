// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// What the forms of an evaluation's report share.
#pragma once

#include <string>

#include "client/cli/eval/report.h"
#include "client/cli/json.h"

namespace spin::cli {

// All tables of one trace.
Json TraceJson(const EvalReport& report, const EvaluatedTrace& trace);

// The recommended setting; null or empty where it was not asked for.
Json RecommendedJson(const EvalReport& report);
std::string RecommendedText(const EvalReport& report);

}  // namespace spin::cli

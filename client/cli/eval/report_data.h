// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// What the JSON and the page of an evaluation share.
#pragma once

#include "client/cli/eval/report.h"
#include "client/cli/json.h"

namespace spin::cli {

// All tables of one trace.
Json TraceJson(const EvalReport& report, const EvaluatedTrace& trace);

}  // namespace spin::cli

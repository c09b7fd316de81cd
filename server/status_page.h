// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "spin/v1/session.pb.h"
#include "spin/v1/stats.pb.h"

// The status page of the admin port, for people without a dashboard at hand. One page that loads
// nothing else and asks for its numbers once a second; all arithmetic on them is the page's.
namespace spin::server {

absl::string_view StatusPage();

// One JSON object: {"live": bool, "list": ListSessionsResponse, "stats": WatchStatsResponse},
// the messages in their canonical JSON form (64-bit integers are strings), all fields present.
std::string StatusJson(bool live, const v1::ListSessionsResponse& sessions,
                       const v1::WatchStatsResponse& stats);

// The same of a spind that is up but does not serve: {"live": true, "startFailure": {"reason":
// string, a value of the label of spin_start_failed; "message": string, one sentence; "retries":
// bool, whether spind tries again by itself}}.
std::string StartFailureJson(const absl::Status& failure);

}  // namespace spin::server

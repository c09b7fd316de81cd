// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <google/protobuf/timestamp.pb.h>

#include "absl/time/time.h"
#include "dataplane/layout.h"
#include "dataplane/progress.h"
#include "server/totals.h"
#include "spin/v1/error.pb.h"
#include "spin/v1/session.pb.h"
#include "spin/v1/stats.pb.h"

// Wire forms of what spind keeps in its own types.
namespace spin::server {

google::protobuf::Timestamp ToProto(absl::Time time);
v1::Geometry ToProto(const dataplane::SessionShape& shape);
v1::Layout ToProto(const dataplane::SessionLayout& layout, const dataplane::SessionShape& shape);
v1::TimeHistogram ToProto(const TimeTotals& totals);
v1::SessionStats ToProto(const SessionTotals& totals);

// The refusal of one row; `path` is its place, such as "rows[3]".
v1::ErrorDetail ToProto(const dataplane::RowVerdict& verdict, absl::string_view path);

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "spin/v1/policy.pb.h"

// A policy as a JSON file, which spind and spinctl read and `spinctl tune` writes. The format is
// docs/policy-file.md. A field that the file leaves out stays unset in the message.
namespace spin::policy_file {

// INVALID_ARGUMENT says which field is wrong and what was expected: an unknown field or one that is
// there twice, another type, a number out of range, more than 128 layers, 8 levels or 1 MiB. Never
// throws. Whether fields fit together is for whoever merges them with flags and defaults.
absl::StatusOr<v1::Policy> Parse(absl::string_view json);

// The same from a file; the message begins with its name. The error of the system if it cannot be
// read.
absl::StatusOr<v1::Policy> Read(const std::string& path);

// The file's text. `origin` is a JSON object that says where the policy comes from and what to
// expect of it; readers ignore it. "" leaves it out.
std::string Format(const v1::Policy& policy, absl::string_view origin);

// "fixed", "calibrated", "target_miss"; "" for others.
std::string ModeName(v1::BudgetMode mode);

// The reverse; BUDGET_MODE_UNSPECIFIED for other names.
v1::BudgetMode ModeFrom(absl::string_view name);

}  // namespace spin::policy_file

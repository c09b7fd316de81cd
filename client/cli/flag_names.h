// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace spin::cli {

// A field of the contract, and the flag that it came from.
struct FieldFlag {
  absl::string_view field;
  absl::string_view flag;
};

// The status, but where its message begins with one of these fields with the flag in its place:
// "policy.target_miss: 0 is not in (0, 1)" is what a program needs to read, not its user.
absl::Status WithFlagNames(const absl::Status& status, absl::Span<const FieldFlag> names);

}  // namespace spin::cli

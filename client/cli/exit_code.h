// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"

// What spinctl exits with. Scripts branch on it; --help documents it.
namespace spin::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;       // it ran and failed, or a check failed
inline constexpr int kExitUsage = 2;        // a flag, a file or a value is at fault
inline constexpr int kExitUnreachable = 3;  // no spind answers

// INVALID_ARGUMENT is the user's to mend, UNAVAILABLE means no spind. CANCELLED is 128 + the signal
// that interrupted us, as shells have it.
int ExitCodeFor(const absl::Status& status);

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/exit_code.h"

#include "client/cli/interrupt.h"

namespace spin::cli {

int ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kUnavailable:
      return kExitUnreachable;
    case absl::StatusCode::kCancelled:
      return 128 + InterruptSignal();
    default:
      return kExitFailed;
  }
}

}  // namespace spin::cli

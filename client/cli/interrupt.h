// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"

// Ctrl-C and friends. SIGINT, SIGTERM and SIGHUP do not end spinctl: they ask the running command
// to end, so that what it started is always stopped and what it wrote is removed.
namespace spin::cli {

// Once, early in main, before any thread exists. Also makes a closed stdout a write error instead
// of a death by SIGPIPE.
void CatchInterrupts();

// The signal that asked us to end; 0 if none did.
int InterruptSignal();

// CANCELLED once interrupted. For loops to return.
absl::Status CheckInterrupt();

// A descriptor that becomes readable once interrupted, and stays so. For poll(2); never read it.
int InterruptFd();

// Returns early when interrupted.
void SleepUnlessInterrupted(absl::Duration duration);

}  // namespace spin::cli

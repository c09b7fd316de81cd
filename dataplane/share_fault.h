// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"
#include "dataplane/cuda_memory.h"

namespace spin::dataplane {

// The status, with the fault in a payload.
absl::Status WithFault(ShareFault fault, absl::Status status);

}  // namespace spin::dataplane

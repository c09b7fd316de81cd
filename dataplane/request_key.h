// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace spin::dataplane {

// The 64-bit hash of a request key that feeds exploration and audits: XXH64, seed 0. Part of the
// contract: tensor-parallel ranks, replays and other implementations must agree on it.
uint64_t HashRequestKey(absl::string_view key);

}  // namespace spin::dataplane

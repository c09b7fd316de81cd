// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/request_key.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace spin::dataplane {

uint64_t HashRequestKey(absl::string_view key) { return XXH64(key.data(), key.size(), 0); }

}  // namespace spin::dataplane

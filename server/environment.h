// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

namespace spin::server {

// A sentence for each SPIND_ variable of `environment` (as environ: NAME=VALUE, null at the end)
// that is not among the known ones: it may be a slip of the pen, and has no effect. What Kubernetes
// sets in all pods for a Service whose name begins with spind is none.
std::vector<std::string> UnknownVariables(const std::vector<std::string>& known,
                                          const char* const* environment);

}  // namespace spin::server

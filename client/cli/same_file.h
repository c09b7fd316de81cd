// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

namespace spin::cli {

// Whether two names are of one file that is there: equal, or through links.
bool SameFile(const std::string& a, const std::string& b);

}  // namespace spin::cli

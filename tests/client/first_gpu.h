// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

namespace spin {

// The UUID of the first GPU of this process; empty if there is none.
std::string FirstGpu();

}  // namespace spin

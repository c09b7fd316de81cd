// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "client/cli/json.h"
#include "client/cli/terminal/terminal.h"
#include "client/cli/top/frame.h"

namespace spin::cli {

// The frame as lines of at most `terminal.columns`. As many as it takes; the screen cuts them.
std::vector<std::string> RenderFrame(const Frame& frame, const Terminal& terminal);

Json FrameJson(const Frame& frame);

}  // namespace spin::cli

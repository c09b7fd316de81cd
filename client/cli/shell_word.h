// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

namespace spin::cli {

// The text as a shell takes it for one word, for commands that are shown to be copied.
std::string ShellWord(const std::string& text);

}  // namespace spin::cli

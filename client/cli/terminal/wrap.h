// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spin::cli {

// The text broken at blanks into lines of at most `columns`; a longer word has a line of its own.
// Colours are closed at the end of a line and go on in the next. At least one line.
std::vector<std::string> Wrap(absl::string_view text, size_t columns);

}  // namespace spin::cli

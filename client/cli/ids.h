// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>

namespace spin::cli {

// Session ids as spinctl shows them: 16 hexadecimal digits.
std::string FormatId(uint64_t id);

// Whether the text is one or more hexadecimal digits.
bool IsHexadecimal(const std::string& text);

}  // namespace spin::cli

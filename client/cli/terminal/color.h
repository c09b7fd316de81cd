// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

// Colours by meaning. A reader without colours loses nothing: tone only repeats what the text says.
namespace spin::cli {

enum class Tone { kPlain, kStrong, kQuiet, kGood, kWarn, kBad };

class Paint {
 public:
  explicit Paint(bool enabled) : enabled_(enabled) {}

  // The text in that tone; as it is where colours are off.
  std::string operator()(Tone tone, absl::string_view text) const;

 private:
  bool enabled_;
};

// Columns that UTF-8 text takes on the screen. Colour sequences take none; every character takes
// one.
size_t DisplayWidth(absl::string_view text);

// The longest beginning of the text that takes at most `columns`; colours are reset where it is
// cut.
std::string Clip(absl::string_view text, size_t columns);

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <termios.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace spin::cli {

// The whole terminal, for a view that redraws itself. Gives the terminal back as it was.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Whether stdin is a terminal, and so delivers single keys now.
  bool keys() const { return keys_; }

  // Replaces what is shown, without flicker. Lines that do not fit are left out, and counted in the
  // last row.
  absl::Status Draw(std::vector<std::string> lines, int rows);

 private:
  bool keys_ = false;
  termios saved_ = {};
};

}  // namespace spin::cli

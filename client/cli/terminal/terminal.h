// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

// What the terminal behind a stream can show. Everything that adapts its output asks here.
namespace spin::cli {

struct Terminal {
  bool tty = false;      // somebody watches: bars and redrawn frames make sense
  bool color = false;    // a terminal, NO_COLOR unset, TERM not "dumb"
  bool unicode = false;  // a terminal in a UTF-8 locale
  int columns = 80;
  int rows = 24;
};

// Of an open file descriptor. A pipe or file gives plain ASCII at 80 columns.
Terminal DetectTerminal(int fd);

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/top/screen.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "client/cli/command.h"

namespace spin::cli {
namespace {

constexpr char kEnter[] = "\033[?1049h\033[?25l";  // alternate screen, no cursor
constexpr char kLeave[] = "\033[?25h\033[?1049l";
constexpr char kHome[] = "\033[H";
constexpr char kEndOfLine[] = "\033[K";
constexpr char kEraseBelow[] = "\033[J";

}  // namespace

Screen::Screen() {
  keys_ = isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &saved_) == 0;
  if (keys_) {
    termios single_keys = saved_;
    single_keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    single_keys.c_cc[VSUSP] = _POSIX_VDISABLE;  // Ctrl-Z would leave the terminal like this
    tcsetattr(STDIN_FILENO, TCSANOW, &single_keys);
  }
  Print(kEnter).IgnoreError();
}

Screen::~Screen() {
  Print(kLeave).IgnoreError();
  if (keys_) tcsetattr(STDIN_FILENO, TCSANOW, &saved_);
}

absl::Status Screen::Draw(std::vector<std::string> lines, int rows) {
  const size_t room = rows < 1 ? 1 : static_cast<size_t>(rows);
  if (lines.size() > room) {
    const size_t hidden = lines.size() - room + 1;
    lines.resize(room - 1);
    lines.push_back(absl::StrCat("... ", hidden, " more lines; enlarge the terminal"));
  }
  std::string text = kHome;
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "\r\n", lines[i], kEndOfLine);
  }
  return Print(absl::StrCat(text, kEraseBelow));
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace spin::cli {
namespace {

absl::string_view Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The first of the three that is set decides, as in setlocale(3).
bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = absl::AsciiStrToLower(Variable(name));
    if (value.empty()) continue;
    return absl::StrContains(value, "utf-8") || absl::StrContains(value, "utf8");
  }
  return false;
}

}  // namespace

Terminal DetectTerminal(int fd) {
  Terminal terminal;
  terminal.tty = isatty(fd) == 1;
  if (!terminal.tty) return terminal;
  const bool dumb = Variable("TERM") == "dumb";
  terminal.color = !dumb && Variable("NO_COLOR").empty();
  terminal.unicode = !dumb && LocaleIsUtf8();
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    terminal.columns = size.ws_col;
    terminal.rows = size.ws_row;
  }
  return terminal;
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/terminal/progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/terminal/bar.h"
#include "client/cli/terminal/color.h"
#include "client/cli/terminal/numbers.h"

namespace spin::cli {
namespace {

constexpr absl::Duration kRedrawEvery = absl::Milliseconds(100);
constexpr absl::Duration kLineEvery = absl::Seconds(5);
constexpr char kEraseLine[] = "\r\033[K";
constexpr int kWidestBar = 40;
constexpr int kNarrowestBar = 5;  // a narrower one is left out

absl::Duration Every(const Terminal& terminal) { return terminal.tty ? kRedrawEvery : kLineEvery; }

std::string Left(double share, absl::Duration elapsed, absl::Duration longest) {
  if (share >= 1) return "";
  const absl::Duration by_work = share > 0 ? elapsed * (1 / share - 1) : absl::InfiniteDuration();
  const absl::Duration left = std::min(by_work, std::max(longest - elapsed, absl::ZeroDuration()));
  if (left == absl::InfiniteDuration()) return "";
  return absl::StrCat("  ", FormatAge(left + absl::Seconds(1)), " left");
}

}  // namespace

std::string ProgressLine(const std::string& what, int64_t done, int64_t total,
                         absl::Duration elapsed, int columns, bool unicode,
                         absl::Duration longest) {
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const std::string numbers =
      absl::StrFormat("%3.0f %%  %d/%d%s", 100 * share, done, total, Left(share, elapsed, longest));
  const int room = columns - static_cast<int>(DisplayWidth(what) + numbers.size()) - 4;
  const int width = std::min(room, kWidestBar);
  if (width < kNarrowestBar) return Clip(absl::StrCat(what, " ", numbers), columns);
  return absl::StrCat(what, " [", Bar(share, width, unicode), "] ", numbers);
}

Progress::Progress(std::string what, int64_t total, const Terminal& terminal, std::FILE* out,
                   absl::Time now, absl::Duration longest)
    : what_(std::move(what)),
      total_(total),
      terminal_(terminal),
      out_(out),
      start_(now),
      longest_(longest),
      next_(now + Every(terminal)) {}

void Progress::Update(int64_t done, absl::Time now) {
  if (now < next_) return;
  next_ = now + Every(terminal_);
  const std::string line = ProgressLine(what_, done, total_, now - start_, terminal_.columns - 1,
                                        terminal_.unicode, longest_);
  std::fputs((terminal_.tty ? absl::StrCat(kEraseLine, line) : absl::StrCat(line, "\n")).c_str(),
             out_);
  std::fflush(out_);
  drawn_ = terminal_.tty;
}

void Progress::Clear() {
  if (!drawn_) return;
  std::fputs(kEraseLine, out_);
  std::fflush(out_);
  drawn_ = false;
}

}  // namespace spin::cli

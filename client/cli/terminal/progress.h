// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/time/time.h"
#include "client/cli/terminal/terminal.h"

// Progress of long work: a bar that redraws itself on a terminal, else a line every few seconds, so
// that a log stays short. Work that is over before the first of them was due leaves no trace.
namespace spin::cli {

// One state of the bar, at most `columns` wide: "replay [#####.....] 50 % 128/256  3s left". It is
// over after `longest` at the latest, whatever is done then.
std::string ProgressLine(const std::string& what, int64_t done, int64_t total,
                         absl::Duration elapsed, int columns, bool unicode,
                         absl::Duration longest = absl::InfiniteDuration());

class Progress {
 public:
  // Writes to `out`, which must outlive this. `total` is at least 1.
  Progress(std::string what, int64_t total, const Terminal& terminal, std::FILE* out,
           absl::Time now, absl::Duration longest = absl::InfiniteDuration());
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Cheap enough for every step of the work.
  void Update(int64_t done, absl::Time now);

  // Removes the bar, so that other output can follow. The next Update draws it again.
  void Clear();

 private:
  std::string what_;
  int64_t total_;
  Terminal terminal_;
  std::FILE* out_;
  absl::Time start_;
  absl::Duration longest_;
  absl::Time next_;
  bool drawn_ = false;
};

}  // namespace spin::cli

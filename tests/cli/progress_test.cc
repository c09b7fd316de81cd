// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/terminal/progress.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace spin::cli {
namespace {

// What a Progress wrote.
class Capture {
 public:
  Capture() : stream_(open_memstream(&data_, &size_)) {}
  ~Capture() {
    std::fclose(stream_);
    std::free(data_);
  }
  std::FILE* stream() { return stream_; }
  std::string text() const { return std::string(data_, size_); }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
  std::FILE* stream_;
};

TEST(ProgressLineTest, FitsTheWidthAndSaysWhatIsLeft) {
  EXPECT_EQ(ProgressLine("replay", 50, 100, absl::Seconds(3), 50, false),
            "replay [#########.........]  50 %  50/100  4s left");
  EXPECT_EQ(ProgressLine("replay", 100, 100, absl::Seconds(3), 50, false),
            "replay [##########################] 100 %  100/100");
}

TEST(ProgressLineTest, WhatIsLeftEndsAtTheLongestTime) {
  const auto line = [](int done, absl::Duration longest) {
    return ProgressLine("record", done, 100, absl::Seconds(10), 50, false, longest);
  };
  EXPECT_NE(line(1, absl::Seconds(60)).find("51s left"), std::string::npos);
  EXPECT_NE(line(0, absl::Seconds(60)).find("51s left"), std::string::npos);
  EXPECT_NE(line(50, absl::Seconds(60)).find("11s left"), std::string::npos);
  EXPECT_NE(line(1, absl::Seconds(5)).find("1s left"), std::string::npos);
}

TEST(ProgressLineTest, DropsTheBarWhereThereIsNoRoom) {
  EXPECT_EQ(ProgressLine("replay", 1, 4, absl::Seconds(1), 20, false), "replay  25 %  1/4  4");
}

TEST(ProgressTest, ShortWorkLeavesNoTrace) {
  Capture capture;
  const absl::Time start = absl::UnixEpoch();
  {
    Progress progress("replay", 10, Terminal{}, capture.stream(), start);
    for (int i = 1; i <= 10; ++i) progress.Update(i, start + absl::Milliseconds(10 * i));
  }
  EXPECT_EQ(capture.text(), "");
}

TEST(ProgressTest, WithoutATerminalAFewLines) {
  Capture capture;
  const absl::Time start = absl::UnixEpoch();
  Progress progress("replay", 100, Terminal{}, capture.stream(), start);
  for (int i = 1; i <= 100; ++i) progress.Update(i, start + absl::Milliseconds(110 * i));
  const std::string text = capture.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(ProgressTest, OnATerminalTheBarIsRedrawnAndRemoved) {
  Capture capture;
  Terminal terminal;
  terminal.tty = true;
  const absl::Time start = absl::UnixEpoch();
  {
    Progress progress("replay", 100, terminal, capture.stream(), start);
    for (int i = 1; i <= 50; ++i) progress.Update(i, start + absl::Milliseconds(50 * i));
    EXPECT_NE(capture.text().find("50/100"), std::string::npos);
  }
  const std::string text = capture.text();
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(text.substr(text.size() - 4), "\r\033[K");
}

}  // namespace
}  // namespace spin::cli

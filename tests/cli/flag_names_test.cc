// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/flag_names.h"

#include <gtest/gtest.h>

#include <string>

namespace spin::cli {
namespace {

std::string Renamed(absl::string_view message) {
  const FieldFlag names[] = {{"options.max_time", "--max-time"}, {"options.path", "--out"}};
  const absl::Status status = WithFlagNames(absl::NotFoundError(message), names);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  return std::string(status.message());
}

TEST(FlagNamesTest, AFieldAtTheBeginningGetsTheNameOfItsFlag) {
  EXPECT_EQ(Renamed("options.path: is there"), "--out: is there");
  EXPECT_EQ(Renamed("options.path is there"), "--out is there");
}

TEST(FlagNamesTest, AnythingElseStaysAsItIs) {
  EXPECT_EQ(Renamed("options.pathological: is there"), "options.pathological: is there");
  EXPECT_EQ(Renamed("not options.path: is there"), "not options.path: is there");
  EXPECT_EQ(Renamed(""), "");
}

}  // namespace
}  // namespace spin::cli

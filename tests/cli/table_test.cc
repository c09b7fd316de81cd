// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/terminal/table.h"

#include <gtest/gtest.h>

namespace spin::cli {
namespace {

TEST(TableTest, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({{"name", Table::Align::kLeft}, {"n"}});
  table.AddRow({"a", "12345"});
  table.AddRule();
  table.AddRow({"longer", "7"});
  EXPECT_EQ(table.Render(Paint(false)),
            "name        n\n"
            "------  -----\n"
            "a       12345\n"
            "------  -----\n"
            "longer      7\n");
}

TEST(TableTest, MissingCellsAreEmptyAndLinesEndWithoutBlanks) {
  Table table({{"a", Table::Align::kLeft}, {"b", Table::Align::kLeft}});
  table.AddRow({"x"});
  EXPECT_EQ(table.Render(Paint(false)), "a  b\n-  -\nx\n");
}

TEST(TableTest, ColoursAndMultibyteCharactersTakeNoExtraRoom) {
  Table table({{"a"}});
  table.AddRow({Paint(true)(Tone::kBad, "é")});
  table.AddRow({"xy"});
  const std::string text = table.Render(Paint(false));
  EXPECT_EQ(text, " a\n--\n \033[31mé\033[0m\nxy\n");
}

TEST(ClipTest, CutsAtCharactersAndResetsColours) {
  EXPECT_EQ(Clip("abc", 2), "ab");
  EXPECT_EQ(Clip("éé", 1), "é");
  EXPECT_EQ(Clip("\033[31mabc\033[0m", 2), "\033[31mab\033[0m");
  EXPECT_EQ(Clip("abc", 3), "abc");
}

}  // namespace
}  // namespace spin::cli

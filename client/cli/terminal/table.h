// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "client/cli/terminal/color.h"

// A plain text table: titles, a rule, rows; columns as wide as their widest cell.
namespace spin::cli {

class Table {
 public:
  enum class Align { kLeft, kRight };  // text left, numbers right

  struct Column {
    std::string title;
    Align align = Align::kRight;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty, surplus ones are dropped. Cells may be coloured.
  void AddRow(std::vector<std::string> cells);

  // A rule, such as above a total.
  void AddRule() { rows_.emplace_back(); }

  // Lines, each with a newline and without blanks at its end.
  std::string Render(const Paint& paint) const;

 private:
  std::vector<size_t> Widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

}  // namespace spin::cli

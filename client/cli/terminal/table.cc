// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/terminal/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace spin::cli {
namespace {

constexpr char kGap[] = "  ";

std::string Pad(absl::string_view cell, size_t width, Table::Align align) {
  const std::string blanks(width - std::min(width, DisplayWidth(cell)), ' ');
  return align == Table::Align::kLeft ? absl::StrCat(cell, blanks) : absl::StrCat(blanks, cell);
}

void FinishLine(std::string* line) {
  line->erase(line->find_last_not_of(' ') + 1);
  line->push_back('\n');
}

}  // namespace

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<size_t> Table::Widths() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = DisplayWidth(columns_[c].title);
    for (const auto& row : rows_) {
      if (!row.empty()) width = std::max(width, DisplayWidth(row[c]));
    }
    widths.push_back(width);
  }
  return widths;
}

std::string Table::Render(const Paint& paint) const {
  const std::vector<size_t> widths = Widths();
  std::string titles, rule, out;
  for (size_t c = 0; c < columns_.size(); ++c) {
    absl::StrAppend(&titles, c == 0 ? "" : kGap,
                    Pad(columns_[c].title, widths[c], columns_[c].align));
    absl::StrAppend(&rule, c == 0 ? "" : kGap, std::string(widths[c], '-'));
  }
  const std::string rule_line = paint(Tone::kQuiet, rule) + "\n";
  titles.erase(titles.find_last_not_of(' ') + 1);
  absl::StrAppend(&out, paint(Tone::kStrong, titles), "\n", rule_line);
  for (const auto& row : rows_) {
    if (row.empty()) {
      absl::StrAppend(&out, rule_line);
      continue;
    }
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c) {
      absl::StrAppend(&line, c == 0 ? "" : kGap, Pad(row[c], widths[c], columns_[c].align));
    }
    FinishLine(&line);
    out += line;
  }
  return out;
}

}  // namespace spin::cli

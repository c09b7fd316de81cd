// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace spin::cli {

// --help with short lines: "--sparsity SHARE    Share of blocks to skip, in [0, 1) (default 0.4)".
// CLI11's own puts defaults and exclusions between the flag and its description.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace spin::cli

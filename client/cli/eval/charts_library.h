// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/strings/string_view.h"

namespace spin::cli {

// Apache ECharts (third_party/echarts), minified, for a script element of a page.
absl::string_view ChartsLibrary();

}  // namespace spin::cli

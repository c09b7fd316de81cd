// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/flag_names.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace spin::cli {

absl::Status WithFlagNames(const absl::Status& status, absl::Span<const FieldFlag> names) {
  for (const FieldFlag& name : names) {
    absl::string_view rest = status.message();
    if (!absl::ConsumePrefix(&rest, name.field)) continue;
    if (rest.empty() || (rest.front() != ':' && rest.front() != ' ')) continue;  // a longer name
    return absl::Status(status.code(), absl::StrCat(name.flag, rest));
  }
  return status;
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/policy/table.h"

#include "absl/strings/str_cat.h"
#include "client/cli/describe.h"
#include "client/cli/terminal/numbers.h"
#include "policy_file/policy_file.h"

namespace spin::cli {

std::vector<std::string> PolicyRow(const std::string& name, const v1::Policy& policy,
                                   uint64_t epoch) {
  return {name,
          policy.enabled() ? "on" : "off",
          SparsityText(policy),
          policy_file::ModeName(policy.budget_mode()),
          FormatPercent(policy.exploration(), 1),
          absl::StrCat(policy.decay()),
          policy.audit_every() == 0 ? "never" : absl::StrCat("1 in ", policy.audit_every()),
          policy.pin_first_block() ? "yes" : "no",
          absl::StrCat(policy.seed()),
          absl::StrCat(epoch)};
}

Table PolicyTable() {
  using Align = Table::Align;
  return Table({{"session", Align::kLeft},
                {"state", Align::kLeft},
                {"sparsity"},
                {"budgets", Align::kLeft},
                {"exploration"},
                {"alpha"},
                {"audits"},
                {"pin first"},
                {"seed"},
                {"policy epoch"}});
}

}  // namespace spin::cli

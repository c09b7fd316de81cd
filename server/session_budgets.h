// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "calibration/budget_controller.h"
#include "kernels/geometry.h"
#include "server/policy.h"
#include "server/totals.h"

namespace spin::server {

// Turns what a session has counted into audits for the controller that its policy asks for. With
// fixed budgets it only follows the miss. Not thread-safe.
class SessionBudgets {
 public:
  SessionBudgets(const kernels::Geometry& geometry, const Policy& policy);

  // A caller has changed the policy: budgets start anew from it. What was audited up to `now`
  // counts no longer.
  void Restart(const Policy& policy, const SessionTotals& now);

  // Whether audits change budgets, so that someone has to look at them as they come in. Else they
  // are of use only to whoever asks for the recent miss.
  bool learns() const { return learns_; }

  // Takes in what was audited since the last look; the new budgets, if they are to change.
  std::optional<calibration::BudgetDecision> Review(const SessionTotals& now);

  // Means over the layers; see BudgetController.
  double recent_miss() const { return controller_.recent_miss(); }
  double expected_miss() const { return controller_.expected_miss(); }

 private:
  calibration::BudgetController ControllerFor(const Policy& policy) const;

  const kernels::Geometry geometry_;
  bool learns_;  // the policy's mode is not fixed
  calibration::BudgetController controller_;
  std::vector<kernels::LayerCounters> counters_;  // [layers] as of the last look
  std::vector<kernels::LayerAudits> audits_;
  int looks_at_half_a_step_ = 0;
};

}  // namespace spin::server

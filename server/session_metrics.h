// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <functional>
#include <vector>

#include "server/session_table.h"

namespace spin::server {

// What the state of spind is at a scrape, beside the sessions.
struct ServerGauges {
  uint64_t slab_bytes = 0;
  uint64_t used_bytes = 0;  // by sessions and requests, quarantine included
  uint64_t quarantined_bytes = 0;
  uint64_t connections = 0;
  uint64_t rejected_connections = 0;
  uint64_t step_queue_depth = 0;
  uint64_t control_queue_depth = 0;
};

// The metrics of sessions, requests and memory, computed from the tables at each scrape: nothing is
// registered or removed while sessions come and go, and the step path touches no metric. Series
// have a model and a layer, never a request.
class SessionMetrics final : public prometheus::Collectable {
 public:
  // `sessions` must outlive this.
  SessionMetrics(const SessionTable* sessions, std::function<ServerGauges()> gauges);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const SessionTable* const sessions_;
  const std::function<ServerGauges()> gauges_;
};

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/server_counts.h"

#include "absl/status/status.h"
#include "client/cli/watch.h"

namespace spin::cli {
namespace {

// Id of the session; 0 if there is none.
uint64_t FindSession(const v1::ListSessionsResponse& list, const std::string& client_name) {
  for (const v1::SessionInfo& session : list.sessions()) {
    if (session.client_name() == client_name) return session.session_id();
  }
  return 0;
}

void AddSession(const v1::SessionStats& stats, ServerCounts* counts) {
  for (const v1::LayerStats& layer : stats.layers()) {
    counts->audit_topk_slots += layer.audit_topk_slots();
    counts->audit_missed_slots += layer.audit_missed_slots();
    counts->layer_sparsity.push_back(layer.target_sparsity());
  }
  counts->budget_changes = stats.budget().changes();
  counts->budget_fallbacks = stats.budget().fallbacks();
  counts->budget_reason = stats.budget().reason();
  counts->target_sparsity = stats.target_sparsity();
}

}  // namespace

absl::StatusOr<ServerCounts> FetchServerCounts(const Connection& connection,
                                               const std::string& client_name) {
  const auto list =
      connection.Call(&v1::SpinService::Stub::ListSessions, v1::ListSessionsRequest());
  if (!list.ok()) return list.status();
  const uint64_t id = FindSession(*list, client_name);
  if (id == 0) return absl::NotFoundError("spind no longer has the session of this replay");
  const absl::StatusOr<v1::WatchStatsResponse> stats = FetchStats(connection, id);
  if (!stats.ok()) return stats.status();
  ServerCounts counts;
  counts.epoch = list->server().epoch();
  counts.admin_address = list->server().admin_address();
  for (const v1::SessionStats& session : stats->sessions()) AddSession(session, &counts);
  return counts;
}

}  // namespace spin::cli

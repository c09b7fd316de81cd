// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <grpcpp/support/status.h>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace spin::server {

// The calls of the contract, for metrics.
enum class Method {
  kOpenSession,
  kAttach,
  kCloseSession,
  kGetSession,
  kListSessions,
  kOpenRequests,
  kExtendRequests,
  kCloseRequests,
  kStep,
  kCommitDrafts,
  kUpdatePolicy,
  kStartRecording,
  kStopRecording,
  kWatchStats,
};
inline constexpr std::array<absl::string_view, 14> kMethodNames = {
    "OpenSession",  "Attach",         "CloseSession",  "GetSession", "ListSessions",
    "OpenRequests", "ExtendRequests", "CloseRequests", "Step",       "CommitDrafts",
    "UpdatePolicy", "StartRecording", "StopRecording", "WatchStats"};

// Counts and latencies of calls. All series are made at once, at 0: adding one later would stall
// calls while a large scrape runs. Thread-safe.
class RpcMetrics {
 public:
  explicit RpcMetrics(prometheus::Registry& registry);

  // One finished call. Streams have a code, but no latency.
  void CountUnary(Method method, grpc::StatusCode code, absl::Duration latency);
  void CountStream(Method method, grpc::StatusCode code);

 private:
  static constexpr size_t kCodes = 17;  // OK to UNAUTHENTICATED
  std::array<std::array<prometheus::Counter*, kCodes>, kMethodNames.size()> calls_;
  std::array<prometheus::Histogram*, kMethodNames.size()> latency_;
};

}  // namespace spin::server

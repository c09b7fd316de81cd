// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/rpc_metrics.h"
#include "server/session_table.h"
#include "spin/v1/stats.pb.h"

// WatchStats, server side: totals at an interval until the client has enough. Owned by gRPC;
// deletes itself.
namespace spin::server {

class WatchStream;

// The streams that are open, so that shutting down does not wait for their clients. Thread-safe.
class WatchStreams {
 public:
  void Add(WatchStream* stream);
  void Remove(WatchStream* stream);

  // Ends all of them, and every later one at once, with UNAVAILABLE.
  void StopAll();

 private:
  absl::Mutex mutex_;
  absl::flat_hash_set<WatchStream*> open_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

class WatchStream final : public grpc::ServerWriteReactor<v1::WatchStatsResponse> {
 public:
  // A `status` that is not OK ends the stream at once with it.
  WatchStream(const v1::WatchStatsRequest& request, const absl::Status& status,
              SessionTable* sessions, WatchStreams* streams,
              std::function<v1::ServerInfo()> server_info, grpc::CallbackServerContext* context,
              RpcMetrics* metrics);

  // Ends the stream with UNAVAILABLE: spind is stopping.
  void Stop();

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  void OnAlarm();
  void Send();
  void Finish(const absl::Status& status);
  void EndWith(const absl::Status& why);

  const uint64_t session_id_;  // 0: all
  const absl::Duration interval_;
  SessionTable* const sessions_;
  WatchStreams* const streams_;
  const std::function<v1::ServerInfo()> server_info_;
  grpc::CallbackServerContext* const context_;
  RpcMetrics* const metrics_;
  v1::WatchStatsResponse outgoing_;

  // Exactly one of write, alarm and finish is under way at any time, so their callbacks never meet;
  // only OnCancel and Stop come from aside.
  absl::Mutex mutex_;
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);  // why to end, once there is a reason
  grpc::Alarm alarm_;
};

}  // namespace spin::server

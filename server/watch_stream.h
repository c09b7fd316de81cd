// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/rpc_metrics.h"
#include "server/session_table.h"
#include "spin/v1/stats.pb.h"

// WatchStats, server side: totals at an interval until the client has enough. Owned by gRPC; deletes itself.
namespace spin::server {

class WatchStream final : public grpc::ServerWriteReactor<v1::WatchStatsResponse> {
 public:
  // A `status` that is not OK ends the stream at once with it.
  WatchStream(const v1::WatchStatsRequest& request, const absl::Status& status,
              SessionTable* sessions, std::function<v1::ServerInfo()> server_info,
              grpc::CallbackServerContext* context, RpcMetrics* metrics);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  void OnAlarm(bool ok);
  void Send();
  void FinishOnce(const absl::Status& status);

  const uint64_t session_id_;  // 0: all
  const absl::Duration interval_;
  SessionTable* const sessions_;
  const std::function<v1::ServerInfo()> server_info_;
  grpc::CallbackServerContext* const context_;
  RpcMetrics* const metrics_;
  v1::WatchStatsResponse outgoing_;

  // Exactly one of write, alarm and finish is under way at any time, so their callbacks never meet; only OnCancel comes
  // from aside.
  absl::Mutex mutex_;
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Alarm alarm_;
};

}  // namespace spin::server

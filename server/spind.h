// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <grpcpp/server.h>
#include <prometheus/registry.h>

#include <atomic>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/device.h"
#include "server/admin_http.h"
#include "server/budget_reviewer.h"
#include "server/config.h"
#include "server/listener.h"
#include "server/peer_watcher.h"
#include "server/quarantine.h"
#include "server/rpc_metrics.h"
#include "server/service.h"
#include "server/session_metrics.h"
#include "server/session_table.h"
#include "server/slab.h"
#include "server/step_executor.h"
#include "server/work_queue.h"

// A running spind: owns every part, in the order in which they depend on each other.
//
//   threads: listener (accepts), peer-watcher, quarantine, budgets, steps, control, civetweb's
//   sixteen, gRPC's own
namespace spin::server {

class Spind {
 public:
  // Takes the socket's lock, reserves the slab, then serves. A failed start is one sentence that
  // says what to do, and leaves nothing behind; server/start_failure.h tells more of it. Shows its
  // pages on `admin`, or opens the configured address if that is null.
  static absl::StatusOr<std::unique_ptr<Spind>> Start(const Config& config,
                                                      std::shared_ptr<AdminHttp> admin = nullptr);

  // Stops in order: refuses new work, ends sessions, finishes what runs. Bounded to a few seconds.
  ~Spind();

  const std::string& admin_address() const { return admin_->address(); }

 private:
  Spind(const Config& config, SocketLock lock, std::unique_ptr<kernels::Device> device,
        std::unique_ptr<Slab> slab, std::unique_ptr<StepExecutor> executor,
        std::shared_ptr<AdminHttp> admin);
  absl::Status Serve(const Config& config);
  AdminHttp::Pages Pages();
  v1::ServerInfo Info() const;
  std::string Status() const;
  bool Live() const;
  ServerGauges Gauges() const;

  const absl::Time started_at_;
  SocketLock lock_;
  std::unique_ptr<kernels::Device> device_;
  std::unique_ptr<Slab> slab_;
  std::shared_ptr<prometheus::Registry> registry_;
  RpcMetrics rpc_metrics_;
  Quarantine quarantine_;
  SessionTable sessions_;
  std::unique_ptr<BudgetReviewer> budgets_;
  const std::unique_ptr<StepExecutor> executor_;
  WorkQueue step_queue_;
  WorkQueue control_queue_;
  std::unique_ptr<PeerWatcher> peers_;
  std::unique_ptr<SpinService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> serving_ = false;
  std::shared_ptr<AdminHttp> admin_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace spin::server

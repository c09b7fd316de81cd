// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <prometheus/collectable.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

struct mg_context;
struct mg_connection;

// The small TCP port beside the control socket, for kubelet and Prometheus, which cannot use unix
// sockets:
//   /             status page, for people (server/status_page.h)
//   /status.json  what it shows
//   /metrics      text format
//   /livez        200 while the step thread answers
//   /startupz     200 once the control socket accepts
// Of a spind that stays up although it cannot serve (--stay-up), all of them tell that instead.
namespace spin::server {

class AdminHttp {
 public:
  // What is shown; called from many threads at once.
  struct Pages {
    std::vector<std::shared_ptr<prometheus::Collectable>> metrics;
    std::function<bool()> live;
    std::function<bool()> started;
    std::function<std::string()> status_json;
  };

  // `address` is HOST:PORT; port 0 takes a free one. FAILED_PRECONDITION if the port is taken. Has
  // nothing to show yet.
  static absl::StatusOr<std::unique_ptr<AdminHttp>> Start(const std::string& address);
  ~AdminHttp();

  // Thread-safe. When they return, nobody reads what was shown before. Without pages all probes and
  // numbers answer 503.
  void Show(Pages pages) ABSL_LOCKS_EXCLUDED(mutex_);
  void Hide() ABSL_LOCKS_EXCLUDED(mutex_);

  // HOST:PORT really listened on.
  const std::string& address() const { return address_; }

 private:
  AdminHttp();
  bool Holds(std::function<bool()> Pages::*probe) const ABSL_LOCKS_EXCLUDED(mutex_);
  static int OnMetrics(mg_connection* connection, void* self);
  static int OnLive(mg_connection* connection, void* self);
  static int OnStarted(mg_connection* connection, void* self);
  static int OnStatusJson(mg_connection* connection, void* self);
  static int OnPageOrNothing(mg_connection* connection, void* self);

  mutable absl::Mutex mutex_;
  std::optional<Pages> pages_ ABSL_GUARDED_BY(mutex_);
  mg_context* context_ = nullptr;
  std::string address_;
  int port_ = 0;
};

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <prometheus/collectable.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

struct mg_context;
struct mg_connection;

// The small TCP port beside the control socket, for kubelet and Prometheus, which cannot use unix
// sockets:
//   /             status page, for people (server/status_page.h)
//   /status.json  what it shows
//   /metrics      text format
//   /livez        200 while the step thread answers
//   /startupz     200 once the control socket accepts
namespace spin::server {

class AdminHttp {
 public:
  struct Probes {
    std::function<bool()> live;
    std::function<bool()> started;
    std::function<std::string()> status_json;
  };

  // `address` is HOST:PORT; port 0 takes a free one. FAILED_PRECONDITION if the port is taken.
  static absl::StatusOr<std::unique_ptr<AdminHttp>> Start(
      const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> metrics,
      Probes probes);
  ~AdminHttp();

  // HOST:PORT really listened on.
  const std::string& address() const { return address_; }

 private:
  AdminHttp(std::vector<std::shared_ptr<prometheus::Collectable>> metrics, Probes probes);
  static int OnMetrics(mg_connection* connection, void* self);
  static int OnLive(mg_connection* connection, void* self);
  static int OnStarted(mg_connection* connection, void* self);
  static int OnStatusJson(mg_connection* connection, void* self);
  static int OnPageOrNothing(mg_connection* connection, void* self);

  const std::vector<std::shared_ptr<prometheus::Collectable>> metrics_;
  const Probes probes_;
  mg_context* context_ = nullptr;
  std::string address_;
  int port_ = 0;
};

}  // namespace spin::server

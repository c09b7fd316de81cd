// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/doctor/check.h"
#include "client/cli/doctor/http_get.h"
#include "client/cli/health.h"
#include "client/cli/terminal/numbers.h"
#include "spin/session.h"

namespace spin::cli {
namespace {

constexpr absl::Duration kReadyTimeout = absl::Seconds(5);

Check Failed(const std::string& name, const absl::Status& status, const std::string& advice) {
  return {name, Outcome::kFail, std::string(status.message()), advice};
}

Check HealthCheck(const Connection& connection) {
  const absl::Status status = CheckHealth(connection);
  if (!status.ok()) return Failed("health", status, "look at the log of spind, or restart it");
  return {"health", Outcome::kOk, "serving", ""};
}

Check VersionCheck(const v1::ServerInfo& server) {
  if (server.version() == SPIN_VERSION) return {"version", Outcome::kOk, server.version(), ""};
  return {"version", Outcome::kWarn,
          absl::StrCat("spind ", server.version(), ", spinctl " SPIN_VERSION),
          "install both from one release; other versions may refuse each other's slab"};
}

// A session of the smallest shape there is.
SessionOptions TinySession(const std::string& path) {
  SessionOptions options;
  options.socket = path;
  options.model.name = "spinctl-doctor";
  options.model.layers = 1;
  options.model.topk = 1;
  options.model.max_slots = options.model.block_slots;
  options.max_requests = 1;
  options.client_name = "spinctl doctor";
  return options;
}

Check SlabCheck(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(TinySession(path));
  if (!session.ok()) return Failed("slab", session.status(), "");
  const absl::Status ready = (*session)->WaitUntilReady(kReadyTimeout);
  if (!ready.ok()) {
    return Failed("slab", ready,
                  "engines on this host would keep all blocks; in a pod, both containers "
                  "need the same /dev/shm (CPU) or GPU");
  }
  return {"slab", Outcome::kOk, "a session opens, and its memory can be mapped", ""};
}

Check RoomCheck(const v1::ServerInfo& server) {
  const uint64_t left = server.slab_bytes() - server.slab_used_bytes();
  const std::string found =
      absl::StrCat(FormatBytes(left), " of ", FormatBytes(server.slab_bytes()), " free");
  if (left >= server.slab_bytes() / 10) return {"room", Outcome::kOk, found, ""};
  return {"room", Outcome::kWarn, found,
          "new requests may be refused, and then keep all blocks; raise --slab-bytes"};
}

Check AdminCheck(const v1::ServerInfo& server) {
  if (server.admin_address().empty()) {
    return {"admin port", Outcome::kInfo, "off", "metrics need --admin-address"};
  }
  const absl::StatusOr<int> code = HttpGet(server.admin_address(), "/livez");
  if (!code.ok()) {
    return Failed("admin port", code.status(),
                  "from another network namespace this is expected; else look at --admin-address");
  }
  const std::string found = absl::StrCat("http://", server.admin_address(), "/livez says ", *code);
  if (*code == 200) return {"admin port", Outcome::kOk, found, ""};
  return {"admin port", Outcome::kFail, found, "spind is stuck: restart it, and report its log"};
}

Check Skipped(const std::string& name) {
  return {name, Outcome::kSkipped, "needs a spind that answers", ""};
}

}  // namespace

ServerChecks CheckServer(const std::string& path, bool reachable) {
  const Connection connection(path);
  ServerChecks out = {{reachable ? HealthCheck(connection) : Skipped("health")}, std::nullopt};
  std::vector<Check>& checks = out.checks;
  if (checks.back().outcome != Outcome::kOk) {
    for (const char* name : {"version", "slab", "room", "admin port"}) {
      checks.push_back(Skipped(name));
    }
    return out;
  }
  const auto list =
      connection.Call(&v1::SpinService::Stub::ListSessions, v1::ListSessionsRequest());
  if (!list.ok()) {
    checks.push_back(Failed("control plane", list.status(), "look at the log of spind"));
    return out;
  }
  out.server = list->server();
  checks.push_back(VersionCheck(*out.server));
  checks.push_back(SlabCheck(path));
  checks.push_back(RoomCheck(*out.server));
  checks.push_back(AdminCheck(*out.server));
  return out;
}

}  // namespace spin::cli

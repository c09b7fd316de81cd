// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/types.h>

#include <map>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/peer.h"

// Refusals of sessions in the log: nothing else in spind shows an engine that has none. It asks
// again and again, several times a second, so not each refusal is told. Belongs to one thread.
namespace spin::server {

class RefusedSessions {
 public:
  // To be called for each; nobody is left to be told of a connection that is gone.
  void Tell(const std::optional<Peer>& peer, const absl::Status& why);

  // Whether a refusal of this process is to be told at `now`: the first is, then one a minute.
  // Processes that cannot be seen (0) count as one.
  bool IsNews(pid_t pid, absl::Time now);

 private:
  std::map<pid_t, absl::Time> told_;  // within the last minute
};

}  // namespace spin::server

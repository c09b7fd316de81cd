// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/refused_sessions.h"

#include <spdlog/spdlog.h>

#include <string>

#include "absl/time/clock.h"

namespace spin::server {
namespace {

constexpr absl::Duration kSilence = absl::Minutes(1);

}  // namespace

void RefusedSessions::Tell(const std::optional<Peer>& peer, const absl::Status& why) {
  if (!peer.has_value() || !IsNews(peer->pid, absl::Now())) return;
  spdlog::warn("refused a session to pid {}, whose engine scores all blocks: {}", peer->pid,
               std::string(why.message()));
}

bool RefusedSessions::IsNews(pid_t pid, absl::Time now) {
  std::erase_if(told_, [now](const auto& told) { return now - told.second >= kSilence; });
  return told_.emplace(pid, now).second;
}

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/session_table.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/refusal.h"
#include "server/validate.h"

namespace spin::server {

absl::string_view EndReasonName(EndReason reason) {
  switch (reason) {
    case EndReason::kClosed:
      return "closed";
    case EndReason::kDetached:
      return "detached";
    case EndReason::kConnectionLost:
      return "connection_lost";
    case EndReason::kPeerExited:
      return "peer_exited";
    case EndReason::kShutdown:
      return "shutdown";
  }
  return "unknown";
}

absl::Status SessionTable::Add(std::shared_ptr<Session> session) {
  absl::MutexLock lock(&mutex_);
  if (sessions_.size() >= kMaxSessions) {
    return Refuse(absl::StatusCode::kResourceExhausted, v1::ERROR_REASON_CAPACITY, "",
                  absl::StrCat(kMaxSessions, " sessions are open; close one"));
  }
  ++opened_;
  ModelTotals& model = retired_[LabelOf(session->identity().model_name)];
  if (model.totals.layers.size() < static_cast<size_t>(session->layers())) {
    model.totals.layers.resize(session->layers());  // so that all series exist at 0
    model.totals.audits.resize(session->layers());
  }
  sessions_.push_back(std::move(session));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Session>> SessionTable::Find(uint64_t id) const {
  absl::ReaderMutexLock lock(&mutex_);
  for (const std::shared_ptr<Session>& session : sessions_) {
    if (session->identity().id == id) return session;
  }
  return Refuse(absl::StatusCode::kNotFound, v1::ERROR_REASON_UNKNOWN_SESSION, "session_id",
                absl::StrFormat("%016x names no open session; open a new one", id));
}

std::vector<std::shared_ptr<Session>> SessionTable::All() const {
  absl::ReaderMutexLock lock(&mutex_);
  return sessions_;
}

bool SessionTable::End(uint64_t id, EndReason reason) {
  std::shared_ptr<Session> session;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = std::find_if(sessions_.begin(), sessions_.end(), [id](const auto& candidate) {
      return candidate->identity().id == id;
    });
    if (it == sessions_.end()) return false;
    session = *it;
    sessions_.erase(it);
    retired_[LabelOf(session->identity().model_name)].totals += session->Totals();
    ++ended_[static_cast<size_t>(reason)];
    // Before anybody can find that it is gone: its process may exit now.
    const bool may_still_write =
        reason == EndReason::kDetached || reason == EndReason::kConnectionLost;
    if (may_still_write) quarantine_->Hold(session->identity().peer.pid, session);
  }
  const SessionIdentity& who = session->identity();
  spdlog::info("session {:016x} of {} ({}) ended: {}", id, who.model_name, who.client_name,
               std::string(EndReasonName(reason)));
  session->End(Refuse(absl::StatusCode::kAborted, v1::ERROR_REASON_CLOSED, "",
                      absl::StrCat("the session has ended: ", EndReasonName(reason))));
  return true;
}

template <typename Matches>
std::vector<uint64_t> SessionTable::IdsOf(Matches matches) const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<uint64_t> ids;
  for (const std::shared_ptr<Session>& session : sessions_) {
    if (matches(*session)) ids.push_back(session->identity().id);
  }
  return ids;
}

void SessionTable::EndProcess(pid_t pid) {
  for (uint64_t id : IdsOf([pid](const Session& s) { return s.identity().peer.pid == pid; })) {
    End(id, EndReason::kPeerExited);
  }
  quarantine_->ReleaseProcess(pid);
}

void SessionTable::EndUnattached(uint64_t connection) {
  for (uint64_t id : IdsOf([connection](const Session& s) {
         return s.identity().peer.connection == connection && !s.attached();
       })) {
    End(id, EndReason::kConnectionLost);
  }
}

void SessionTable::EndAll() {
  for (uint64_t id : IdsOf([](const Session&) { return true; })) End(id, EndReason::kShutdown);
}

std::string SessionTable::LabelOf(const std::string& model_name) const {
  const bool known = retired_.contains(model_name);
  return known || retired_.size() < kMaxModels ? model_name : "other";
}

std::map<std::string, ModelTotals> SessionTable::TotalsByModel() const {
  absl::ReaderMutexLock lock(&mutex_);
  std::map<std::string, ModelTotals> models = retired_;
  for (const std::shared_ptr<Session>& session : sessions_) {
    ModelTotals& model = models[LabelOf(session->identity().model_name)];
    const SessionTotals totals = session->Totals();
    model.totals += totals;
    model.open_sessions += 1;
    const auto in_force = session->policy();
    model.target_sparsity = in_force->policy.TargetSparsity();
    model.budget = session->Budgets(*in_force, totals);
    model.policy_epoch = in_force->epoch;
    model.layer_target_sparsity.clear();
    for (int layer = 0; layer < session->layers(); ++layer) {
      model.layer_target_sparsity.push_back(
          in_force->policy.enabled ? in_force->policy.SparsityOf(layer) : 0);
    }
  }
  return models;
}

uint64_t SessionTable::opened() const {
  absl::ReaderMutexLock lock(&mutex_);
  return opened_;
}

uint64_t SessionTable::ended(EndReason reason) const {
  absl::ReaderMutexLock lock(&mutex_);
  return ended_[static_cast<size_t>(reason)];
}

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/session.h"

#include <algorithm>
#include <cstring>

#include "absl/time/clock.h"
#include "dataplane/timeline.h"
#include "server/codec.h"

namespace spin::server {

Session::StepBuffers::StepBuffers(int max_requests) {
  requests.reserve(max_requests);
  before.reserve(max_requests);
  scored.reserve(max_requests);
  audited.reserve(max_requests);
  next.reserve(max_requests);
}

Session::Session(SessionIdentity identity, std::shared_ptr<SessionRegion> region, Policy policy)
    : identity_(std::move(identity)),
      region_(std::move(region)),
      requests_(region_, identity_.zero_init),
      runner_(&region_->device(), region_->view(), region_->step_scratch()),
      step_buffers_(region_->shape().max_requests),
      policy_(std::make_shared<PolicyInForce>(
          PolicyInForce{policy, 1, ToKernels(policy, region_->shape().geometry.layers)})) {
  reported_.layers.resize(layers());
}

std::shared_ptr<const PolicyInForce> Session::policy() const {
  absl::MutexLock lock(&mutex_);
  return policy_;
}

std::shared_ptr<const PolicyInForce> Session::UpdatePolicy(const v1::Policy& change) {
  absl::MutexLock lock(&mutex_);
  auto next = std::make_shared<PolicyInForce>(*policy_);
  ApplyPolicy(change, &next->policy);
  next->epoch += 1;
  next->kernels = ToKernels(next->policy, layers());
  policy_ = std::move(next);
  if (listener_ != nullptr) listener_->OnPolicyChanged(policy_);
  return policy_;
}

bool Session::Attach(SessionListener* listener) {
  absl::MutexLock lock(&mutex_);
  if (listener_ != nullptr || ended()) return false;
  listener_ = listener;
  return true;
}

void Session::Detach(SessionListener* listener) {
  absl::MutexLock lock(&mutex_);
  if (listener_ == listener) listener_ = nullptr;
}

bool Session::attached() const {
  absl::MutexLock lock(&mutex_);
  return listener_ != nullptr;
}

void Session::End(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  ended_.store(true, std::memory_order_release);
  if (listener_ != nullptr) listener_->OnEnded(why);
}

void Session::Quarantine(std::shared_ptr<Request> request, uint64_t after) {
  absl::MutexLock lock(&mutex_);
  quarantine_.emplace_back(after, std::move(request));
}

void Session::Sweep() {
  std::vector<std::shared_ptr<Request>> released;  // let go after the lock
  absl::MutexLock lock(&mutex_);
  if (quarantine_.empty()) return;
  uint64_t reached = 0;
  const absl::Status read = region_->slab().Read(
      &reached, &region_->view().timeline->engine_done, sizeof reached);
  if (!read.ok()) return;
  const auto keep =
      std::partition(quarantine_.begin(), quarantine_.end(),
                     [reached](const auto& held) { return reached < held.first; });
  for (auto it = keep; it != quarantine_.end(); ++it) released.push_back(std::move(it->second));
  quarantine_.erase(keep, quarantine_.end());
}

void Session::TakeReport(const v1::ClientReport& report) {
  absl::MutexLock lock(&totals_mutex_);
  reported_.steps = Raised(report.steps(), reported_.steps);
  reported_.rows = Raised(report.rows(), reported_.rows);
  for (const v1::FallbackCount& count : report.fallback_rows()) {
    if (count.reason() <= 0 || count.reason() >= kFallbackReasons) continue;
    uint64_t& rows = reported_.fallback_rows[count.reason()];
    rows = Raised(count.rows(), rows);
  }
  unobserved_full_blocks_ = Raised(report.unobserved_full_blocks(), unobserved_full_blocks_);
  RaiseTo(report.predict_time(), &reported_.predict_time);
  RaiseTo(report.observe_time(), &reported_.observe_time);
}

SessionTotals Session::Totals() {
  std::vector<kernels::LayerCounters> now(layers());
  const bool read =
      region_->slab().Read(now.data(), region_->view().counters, now.size() * sizeof now[0]).ok();
  absl::MutexLock lock(&totals_mutex_);
  for (int layer = 0; read && layer < layers(); ++layer) {
    RaiseTo(now[layer], &reported_.layers[layer]);
  }
  SessionTotals totals = reported_;
  for (kernels::LayerCounters& layer : totals.layers) {
    layer.considered_blocks += unobserved_full_blocks_;
    layer.full_blocks += unobserved_full_blocks_;
  }
  totals.steps += steps_.load(std::memory_order_relaxed);
  totals.predict_time += predict_time_.Read();
  totals.observe_time += observe_time_.Read();
  return totals;
}

void Session::CountStep(absl::Duration observe, absl::Duration predict) {
  steps_.fetch_add(1, std::memory_order_relaxed);
  observe_time_.Add(observe);
  predict_time_.Add(predict);
}

v1::SessionInfo Session::Info() {
  const auto in_force = policy();
  v1::SessionInfo info;
  info.set_session_id(identity_.id);
  info.set_model_name(identity_.model_name);
  info.set_client_name(identity_.client_name);
  *info.mutable_geometry() = ToProto(region_->shape());
  info.set_executor(identity_.executor);
  *info.mutable_policy() = ToProto(in_force->policy);
  info.set_policy_epoch(in_force->epoch);
  info.set_attached(attached());
  info.set_open_requests(static_cast<uint32_t>(requests_.size()));
  info.set_state_bytes(state_bytes());
  *info.mutable_opened_at() = ToProto(identity_.opened_at);
  info.set_peer_process_id(identity_.peer.pid);
  info.set_peer_user_id(identity_.peer.uid);
  return info;
}

v1::SessionStats Session::Stats() {
  const auto in_force = policy();
  v1::SessionStats stats = ToProto(Totals());
  stats.set_session_id(identity_.id);
  stats.set_model_name(identity_.model_name);
  stats.set_open_requests(static_cast<uint32_t>(requests_.size()));
  stats.set_state_bytes(state_bytes());
  stats.set_target_sparsity(in_force->policy.TargetSparsity());
  stats.set_policy_epoch(in_force->epoch);
  return stats;
}

}  // namespace spin::server

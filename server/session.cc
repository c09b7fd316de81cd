// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dataplane/timeline.h"
#include "server/codec.h"
#include "server/refusal.h"

namespace spin::server {

Session::StepBuffers::StepBuffers(int max_requests) {
  requests.reserve(max_requests);
  before.reserve(max_requests);
  scored.reserve(max_requests);
  audited.reserve(max_requests);
  next.reserve(max_requests);
}

Session::Session(SessionIdentity identity, std::shared_ptr<SessionRegion> region, Policy policy,
                 std::string reason)
    : identity_(std::move(identity)),
      region_(std::move(region)),
      requests_(region_, identity_.zero_init),
      runner_(&region_->device(), region_->view(), region_->step_scratch()),
      step_buffers_(region_->shape().max_requests),
      budgets_(region_->shape().geometry, policy),
      policy_(std::make_shared<PolicyInForce>(
          PolicyInForce{policy, 1, ToKernels(policy, region_->shape().geometry.layers),
                        std::move(reason), absl::Now()})) {
  reported_.layers.resize(layers());
  reported_.audits.resize(layers());
}

std::shared_ptr<const PolicyInForce> Session::policy() const {
  absl::MutexLock lock(&mutex_);
  return policy_;
}

std::optional<PolicyConflict> Session::ConflictOf(const v1::Policy& change) const {
  Policy next = policy()->policy;
  if (ConflictIn(next).has_value()) return std::nullopt;  // nothing new: the off switch must work
  ApplyPolicy(change, &next);
  return ConflictIn(next);
}

std::shared_ptr<const PolicyInForce> Session::UpdatePolicy(const v1::Policy& change) {
  absl::MutexLock lock(&budgets_mutex_);
  Policy next = policy()->policy;
  ApplyPolicy(change, &next);
  const Policy fitting = next.ForLayers(layers());
  const bool fits = fitting.layer_sparsity.size() == next.layer_sparsity.size();
  if (ChangesBudgets(change)) budgets_.Restart(fitting, Totals());
  return Enforce(fitting, fits ? "set by a call"
                               : absl::StrCat("set by a call, with the mean of budgets for ",
                                              next.layer_sparsity.size(), " layers"));
}

void Session::ReviewBudgets() {
  absl::MutexLock lock(&budgets_mutex_);
  if (!budgets_.learns() || policy()->policy.audit_every == 0) return;
  const std::optional<calibration::BudgetDecision> decision = budgets_.Review(Totals());
  if (!decision.has_value() || ended()) return;
  Policy next = policy()->policy;
  next.layer_sparsity = decision->sparsity;
  // A calibrated policy keeps the total that it was given.
  if (next.budget_mode == v1::BUDGET_MODE_TARGET_MISS) next.sparsity = next.TargetSparsity();
  {
    absl::MutexLock totals_lock(&totals_mutex_);
    reported_.budget_changes += 1;
    reported_.budget_fallbacks += decision->fallback ? 1 : 0;
  }
  const auto in_force = Enforce(std::move(next), decision->reason);
  spdlog::log(decision->fallback ? spdlog::level::warn : spdlog::level::info,
              "session {:016x} of {}: policy epoch {}, sparsity {:.4f}: {}", identity_.id,
              identity_.model_name, in_force->epoch, in_force->policy.TargetSparsity(),
              decision->reason);
}

std::shared_ptr<const PolicyInForce> Session::Enforce(Policy policy, std::string reason) {
  absl::MutexLock lock(&mutex_);
  auto next = std::make_shared<PolicyInForce>();
  next->kernels = ToKernels(policy, layers());
  next->policy = std::move(policy);
  next->epoch = policy_->epoch + 1;
  next->reason = std::move(reason);
  next->changed_at = absl::Now();
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

absl::StatusOr<uint64_t> Session::StartRecording(const v1::RecordingOptions& options) {
  absl::MutexLock lock(&mutex_);
  if (!identity_.allow_recording || listener_ == nullptr) {
    return Refuse(absl::StatusCode::kFailedPrecondition, v1::ERROR_REASON_RECORDING_OFF,
                  "session_id",
                  identity_.allow_recording
                      ? "names a session whose engine is not attached"
                      : "names a session whose engine does not allow recording, which holds data "
                        "of users; set allow_recording in its SessionOptions");
  }
  const uint64_t id = RandomId();
  const absl::Status started = recording_.Start(id, options, absl::Now());
  if (!started.ok()) return started;
  listener_->OnRecordingOrdered(recording_.order());
  return id;
}

absl::StatusOr<v1::RecordingStatus> Session::StopRecording(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const absl::Status stopped = recording_.Stop(id);
  if (!stopped.ok()) return stopped;
  if (listener_ != nullptr) listener_->OnRecordingOrdered(recording_.order());
  return recording_.status();
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
  const absl::Status read =
      region_->slab().Read(&reached, &region_->view().timeline->engine_done, sizeof reached);
  if (!read.ok()) return;
  const auto keep = std::partition(quarantine_.begin(), quarantine_.end(),
                                   [reached](const auto& held) { return reached < held.first; });
  for (auto it = keep; it != quarantine_.end(); ++it) released.push_back(std::move(it->second));
  quarantine_.erase(keep, quarantine_.end());
}

void Session::TakeReport(const v1::ClientReport& report) {
  if (report.has_recording()) {
    absl::MutexLock lock(&mutex_);
    recording_.Take(report.recording());
  }
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
  std::vector<kernels::LayerAudits> audits(layers());
  const bool read =
      region_->slab().Read(now.data(), region_->view().counters, now.size() * sizeof now[0]).ok() &&
      region_->slab()
          .Read(audits.data(), region_->view().audits, audits.size() * sizeof audits[0])
          .ok();
  absl::MutexLock lock(&totals_mutex_);
  for (int layer = 0; read && layer < layers(); ++layer) {
    RaiseTo(now[layer], &reported_.layers[layer]);
    RaiseTo(audits[layer], &reported_.audits[layer]);
  }
  SessionTotals totals = reported_;
  const auto topk = static_cast<uint64_t>(region_->shape().geometry.topk);
  for (kernels::LayerCounters& layer : totals.layers) {
    totals.miss_millionths.push_back(layer.audit_missed_slots / topk * 1'000'000 +
                                     layer.audit_missed_slots % topk * 1'000'000 / topk);
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
  info.set_policy_reason(in_force->reason);
  info.set_allow_recording(identity_.allow_recording);
  absl::MutexLock lock(&mutex_);
  if (recording_.status().recording_id() != 0) *info.mutable_recording() = recording_.status();
  return info;
}

v1::SessionStats Session::Stats() {
  const auto in_force = policy();
  const SessionTotals totals = Totals();
  v1::SessionStats stats = ToProto(totals);
  stats.set_session_id(identity_.id);
  stats.set_model_name(identity_.model_name);
  stats.set_open_requests(static_cast<uint32_t>(requests_.size()));
  stats.set_state_bytes(state_bytes());
  stats.set_target_sparsity(in_force->policy.TargetSparsity());
  stats.set_policy_epoch(in_force->epoch);
  stats.set_switched_off(!in_force->policy.enabled);
  for (int layer = 0; layer < layers(); ++layer) {
    stats.mutable_layers(layer)->set_target_sparsity(in_force->kernels.sparsity[layer]);
  }
  *stats.mutable_budget() = Budgets(*in_force, totals);
  return stats;
}

v1::BudgetStats Session::Budgets(const PolicyInForce& in_force, const SessionTotals& totals) {
  v1::BudgetStats out;
  out.set_mode(in_force.policy.budget_mode);
  if (in_force.policy.budget_mode == v1::BUDGET_MODE_TARGET_MISS) {
    out.set_target_miss(in_force.policy.target_miss);
  }
  out.set_changes(totals.budget_changes);
  out.set_fallbacks(totals.budget_fallbacks);
  out.set_reason(in_force.reason);
  *out.mutable_changed_at() = ToProto(in_force.changed_at);
  absl::MutexLock lock(&budgets_mutex_);
  if (!budgets_.learns()) (void)budgets_.Review(totals);  // nobody has looked meanwhile
  out.set_recent_miss(budgets_.recent_miss());
  out.set_expected_miss(budgets_.expected_miss());
  return out;
}

}  // namespace spin::server

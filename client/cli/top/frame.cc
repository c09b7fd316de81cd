// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/top/frame.h"

#include "client/cli/describe.h"
#include "client/cli/ids.h"

namespace spin::cli {
namespace {

double Share(uint64_t part, uint64_t whole) {
  if (whole == 0) return kUnknown;
  return static_cast<double>(part) / static_cast<double>(whole);
}

uint64_t ScoredBlocks(const v1::LayerStats& layer) {
  return layer.predicted_blocks() + layer.explored_blocks() + layer.pinned_blocks() +
         layer.full_blocks();
}

// Of all layers: grows with every step, also before the client has reported the step.
uint64_t ConsideredBlocks(const v1::SessionStats& session) {
  uint64_t blocks = 0;
  for (const v1::LayerStats& layer : session.layers()) blocks += layer.considered_blocks();
  return blocks;
}

double Sparsity(const v1::LayerStats& layer) {
  return 1 - Share(ScoredBlocks(layer), layer.considered_blocks());
}

// now - before for each counter that a frame shows the change of.
v1::LayerStats Difference(const v1::LayerStats& now, const v1::LayerStats& before) {
  v1::LayerStats change;
  change.set_considered_blocks(now.considered_blocks() - before.considered_blocks());
  change.set_predicted_blocks(now.predicted_blocks() - before.predicted_blocks());
  change.set_explored_blocks(now.explored_blocks() - before.explored_blocks());
  change.set_pinned_blocks(now.pinned_blocks() - before.pinned_blocks());
  change.set_full_blocks(now.full_blocks() - before.full_blocks());
  return change;
}

double MeanSeconds(const v1::TimeHistogram& now, const v1::TimeHistogram& before) {
  uint64_t count = 0;
  for (const uint64_t bucket : now.buckets()) count += bucket;
  for (const uint64_t bucket : before.buckets()) count -= bucket;
  return count == 0 ? kUnknown
                    : (now.sum_seconds() - before.sum_seconds()) / static_cast<double>(count);
}

const v1::SessionStats* FindStats(const v1::WatchStatsResponse* look, uint64_t session_id) {
  if (look == nullptr) return nullptr;
  for (const v1::SessionStats& session : look->sessions()) {
    if (session.session_id() == session_id) return &session;
  }
  return nullptr;
}

void AddChange(const v1::SessionStats& now, const v1::SessionStats& before, SessionFrame* frame) {
  v1::LayerStats sum;
  for (int i = 0; i < now.layers_size(); ++i) {
    const v1::LayerStats none;
    const v1::LayerStats layer =
        Difference(now.layers(i), i < before.layers_size() ? before.layers(i) : none);
    frame->layer_sparsity.push_back(Sparsity(layer));
    sum.set_considered_blocks(sum.considered_blocks() + layer.considered_blocks());
    sum.set_predicted_blocks(sum.predicted_blocks() + layer.predicted_blocks());
    sum.set_explored_blocks(sum.explored_blocks() + layer.explored_blocks());
    sum.set_pinned_blocks(sum.pinned_blocks() + layer.pinned_blocks());
    sum.set_full_blocks(sum.full_blocks() + layer.full_blocks());
  }
  frame->realized_sparsity = Sparsity(sum);
  frame->predicted_blocks = sum.predicted_blocks();
  frame->explored_blocks = sum.explored_blocks();
  frame->pinned_blocks = sum.pinned_blocks();
  frame->full_blocks = sum.full_blocks();
  frame->predict_seconds = MeanSeconds(now.predict_time(), before.predict_time());
  frame->observe_seconds = MeanSeconds(now.observe_time(), before.observe_time());
}

void AddTotals(const v1::SessionStats& now, SessionFrame* frame) {
  uint64_t audit_blocks = 0;
  for (const v1::LayerStats& layer : now.layers()) {
    frame->audit_topk_slots += layer.audit_topk_slots();
    frame->audit_missed_slots += layer.audit_missed_slots();
    frame->layer_miss.push_back(Share(layer.audit_missed_slots(), layer.audit_topk_slots()));
    frame->layer_target.push_back(layer.target_sparsity());
    audit_blocks += layer.audit_blocks() - layer.audit_list_blocks();
  }
  frame->audited_rows = now.layers_size() == 0 ? 0 : now.layers(0).audited_rows();
  frame->audit_cost = Share(audit_blocks, ConsideredBlocks(now));
  frame->budget = now.budget();
  frame->steps = now.steps();
  frame->miss = Share(frame->audit_missed_slots, frame->audit_topk_slots);
  for (const v1::FallbackCount& count : now.fallback_rows()) {
    frame->fallbacks.emplace_back(FallbackName(count.reason()), count.rows());
  }
}

SessionFrame MakeSession(const v1::SessionStats& now, const v1::SessionStats* before,
                         double seconds) {
  SessionFrame frame;
  frame.id = FormatId(now.session_id());
  frame.model = now.model_name();
  frame.target_sparsity = now.target_sparsity();
  frame.open_requests = now.open_requests();
  frame.state_bytes = now.state_bytes();
  frame.policy_epoch = now.policy_epoch();
  frame.switched_off = now.switched_off();
  frame.recent = before != nullptr && ConsideredBlocks(now) > ConsideredBlocks(*before);
  AddChange(now, frame.recent ? *before : v1::SessionStats(), &frame);
  AddTotals(now, &frame);
  if (before != nullptr && seconds > 0) {
    frame.steps_per_second = static_cast<double>(now.steps() - before->steps()) / seconds;
  }
  return frame;
}

}  // namespace

Frame MakeFrame(const v1::WatchStatsResponse& now, const v1::WatchStatsResponse* before) {
  Frame frame;
  frame.taken_at = ToTime(now.taken_at());
  frame.server = now.server();
  // Another epoch is another spind: its counters started anew.
  if (before != nullptr && before->server().epoch() != now.server().epoch()) before = nullptr;
  const double seconds =
      before == nullptr ? 0 : absl::ToDoubleSeconds(frame.taken_at - ToTime(before->taken_at()));
  for (const v1::SessionStats& session : now.sessions()) {
    frame.sessions.push_back(
        MakeSession(session, FindStats(before, session.session_id()), seconds));
  }
  return frame;
}

}  // namespace spin::cli

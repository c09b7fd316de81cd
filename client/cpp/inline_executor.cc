// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/inline_executor.h"

#include "absl/time/clock.h"
#include "client/cpp/staging.h"
#include "kernels/exploration.h"

namespace spin::internal {
namespace {

// The scores of one layer where the engine has them. The kernels add layer * layer_stride: one
// layer needs no stride.
kernels::ScoreView ViewOf(const Scores& scores) {
  return {
      .data = scores.data,
      .dtype = scores.type == ElementType::kFloat32 ? kernels::Dtype::kF32 : kernels::Dtype::kBF16,
      .layer_stride = 0,
      .row_stride = scores.row_stride,
      .draft_stride = scores.draft_stride};
}

absl::Status Observe(StepState& step, const kernels::ScoreView& scores,
                     kernels::LayerRange layers) {
  dataplane::StepRunner& runner = step.session->runner();
  absl::Status status = runner.Audit(step.audited, scores, layers, kernels::Stream{});
  status.Update(
      runner.Observe(step.scored, scores, layers, step.policy->kernels.decay, kernels::Stream{}));
  return status;
}

// With the verdict known, the accepted counts are final.
void TakeVerdict(const StepState& step, std::vector<kernels::ScoredRow>& rows) {
  for (kernels::ScoredRow& row : rows) row.accepted = step.rows[row.score_row].accepted;
}

// Whether a list can be made for the row's next step: it may lie beyond the request's state.
bool CanPredict(const StepState& step, const StepRowState& row) {
  const dataplane::Progress after = {true, row.position + row.accepted};
  return dataplane::CheckNext(after, row.binding.capacity_slots,
                              step.session->view().shape.geometry, after.next_position,
                              row.next_next_n)
      .ok();
}

// Fills step.next with the rows' next steps; their lists go to the buffer not in use.
void PlanNext(StepState& step) {
  step.next.clear();
  for (int r = 0; r < step.row_count; ++r) {
    const StepRowState& row = step.rows[r];
    if (!row.observe || !CanPredict(step, row)) continue;
    step.next.push_back({.request = row.binding.index,
                         .next_n = row.next_next_n,
                         .position = row.position + row.accepted,
                         .buffer = 1 - row.buffer,
                         .generation = 0});
  }
}

void UpdateHistories(StepState& step) {
  const kernels::Policy& policy = step.policy->kernels;
  for (int r = 0; r < step.row_count; ++r) {
    const StepRowState& row = step.rows[r];
    if (!row.observe) continue;
    RequestHistory& history = row.request->history();
    history.progress = {true, row.position + row.accepted};
    history.gap = false;
    history.has_list = CanPredict(step, row);
    history.why_no_list = Reason::kCapacity;
    history.list_position = history.progress.next_position;
    history.list_next_n = row.next_next_n;
    history.buffer = 1 - row.buffer;
    history.audit = kernels::AuditDue(policy.seed, row.request->key_hash(), history.list_position,
                                      policy.audit_every);
  }
}

absl::Status Predict(StepState& step, kernels::LayerRange layers) {
  return step.session->runner().Predict(step.next, step.policy->kernels, layers, kernels::Stream{});
}

bool HasDrafts(const StepState& step) { return step.session->view().shape.max_next_n > 1; }

}  // namespace

absl::Status InlineExecutor::TakeLayer(StepState& step, int layer, const Scores& scores) {
  const absl::Time start = absl::Now();
  if (HasDrafts(step)) {
    StageLayer(step, layer, scores);
    step.observe_time += absl::Now() - start;
    return absl::OkStatus();
  }
  absl::Status status = Observe(step, ViewOf(scores), {layer, 1});
  const absl::Time observed = absl::Now();
  if (step.layers_taken == 1) PlanNext(step);  // of this step the first: the same for all layers
  if (status.ok()) status = Predict(step, {layer, 1});
  step.observe_time += observed - start;
  step.predict_time += absl::Now() - observed;
  return status;
}

absl::Status InlineExecutor::Finish(StepState& step) {
  absl::Status status;
  if (HasDrafts(step)) {
    const kernels::LayerRange all = step.session->runner().all_layers();
    const absl::Time start = absl::Now();
    TakeVerdict(step, step.scored);
    TakeVerdict(step, step.audited);
    status = Observe(step, step.session->view().staged_scores(), all);
    const absl::Time observed = absl::Now();
    PlanNext(step);
    if (status.ok()) status = Predict(step, all);
    step.observe_time += observed - start;
    step.predict_time += absl::Now() - observed;
  }
  if (!status.ok()) return status;
  UpdateHistories(step);
  counts_->CountTimes(step.observe_time, step.predict_time);
  return absl::OkStatus();
}

}  // namespace spin::internal

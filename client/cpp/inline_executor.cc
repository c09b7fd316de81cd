// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/inline_executor.h"

#include "absl/time/clock.h"
#include "client/cpp/staging.h"
#include "dataplane/request_key.h"
#include "kernels/exploration.h"

namespace spin::internal {
namespace {

// The scores of one layer where the engine has them. The kernels add layer * layer_stride: one layer needs no stride.
kernels::ScoreView ViewOf(const Scores& scores) {
  return {.data = scores.data,
          .dtype = scores.type == ElementType::kFloat32 ? kernels::Dtype::kF32
                                                        : kernels::Dtype::kBF16,
          .layer_stride = 0,
          .row_stride = scores.row_stride,
          .draft_stride = scores.draft_stride};
}

absl::Status Observe(StepState& step, const kernels::ScoreView& scores,
                     kernels::LayerRange layers) {
  dataplane::StepRunner& runner = step.session->runner();
  absl::Status status = runner.Audit(step.audited, scores, layers, kernels::Stream{});
  status.Update(runner.Observe(step.scored, scores, layers, step.policy->kernels.decay,
                               kernels::Stream{}));
  return status;
}

// With the verdict known, the accepted counts are final.
void TakeVerdict(const StepState& step, std::vector<kernels::ScoredRow>& rows) {
  for (kernels::ScoredRow& row : rows) row.accepted = step.rows[row.score_row].accepted;
}

void PlanNext(StepState& step) {
  step.next.clear();
  const kernels::Policy& policy = step.policy->kernels;
  const dataplane::SessionView& view = step.session->view();
  for (int r = 0; r < step.row_count; ++r) {
    StepRowState& row = step.rows[r];
    if (!row.observe) continue;
    RequestHistory& history = row.request->history();
    history.progress = {true, row.position + row.accepted};
    history.gap = false;
    history.has_list = dataplane::CheckNext(history.progress, row.binding.capacity_slots,
                                            view.shape.geometry, history.progress.next_position,
                                            row.next_next_n).ok();
    history.why_no_list = Reason::kCapacity;
    if (!history.has_list) continue;
    history.list_position = history.progress.next_position;
    history.list_next_n = row.next_next_n;
    history.buffer = 1 - row.buffer;
    history.audit = kernels::AuditDue(policy.seed, view.records[row.binding.index].key_hash,
                                      history.list_position, policy.audit_every);
    step.next.push_back({.request = row.binding.index,
                         .next_n = history.list_next_n,
                         .position = history.list_position,
                         .buffer = history.buffer,
                         .reserved = 0});
  }
}

}  // namespace

absl::Status InlineExecutor::TakeLayer(StepState& step, int layer, const Scores& scores) {
  const absl::Time start = absl::Now();
  absl::Status status;
  if (step.session->view().shape.max_next_n > 1) {
    StageLayer(step, layer, scores);
  } else {
    status = Observe(step, ViewOf(scores), {layer, 1});
  }
  step.observe_time += absl::Now() - start;
  return status;
}

absl::Status InlineExecutor::Finish(StepState& step) {
  dataplane::StepRunner& runner = step.session->runner();
  const absl::Time start = absl::Now();
  absl::Status status;
  if (step.session->view().shape.max_next_n > 1) {
    TakeVerdict(step, step.scored);
    TakeVerdict(step, step.audited);
    status = Observe(step, step.session->view().staged_scores(), runner.all_layers());
  }
  if (!status.ok()) return status;
  const absl::Time observed = absl::Now();
  PlanNext(step);
  status = runner.Predict(step.next, step.policy->kernels, kernels::Stream{});
  counts_->CountTimes(step.observe_time + (observed - start), absl::Now() - observed);
  return status;
}

}  // namespace spin::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/inline_executor.h"

#include "absl/time/clock.h"
#include "client/cpp/element_type.h"
#include "client/cpp/staging.h"

namespace spin::internal {
namespace {

// The scores of one layer where the engine has them. The kernels add layer * layer_stride: one
// layer needs no stride.
kernels::ScoreView ViewOf(const Scores& scores) {
  return {.data = scores.data,
          .dtype = DtypeOf(scores.type),
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
  if (step.layers_taken == 1)
    planner_->PlanNext(step);  // of this step the first: the same for all layers
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
    planner_->PlanNext(step);
    if (status.ok()) status = Predict(step, all);
    step.observe_time += observed - start;
    step.predict_time += absl::Now() - observed;
  }
  if (!status.ok()) return status;
  planner_->UpdateHistories(step);
  counts_->CountTimes(step.observe_time, step.predict_time);
  return absl::OkStatus();
}

}  // namespace spin::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>

#include "dataplane/progress.h"
#include "dataplane/step_runner.h"
#include "server/session.h"
#include "spin/v1/step.pb.h"

namespace spin::server {

// One step in the making: decides about each row, notes in the requests' histories what the step
// will have done, and collects what the device is to do. Of the step thread. One at a time in a
// session, whose step buffers it uses.
class StepPlan {
 public:
  explicit StepPlan(Session& session);
  ~StepPlan();  // lets go of the requests

  // Plans the rows and tells each its fate, supposing that the step will be run.
  void Plan(const v1::StepRequest& request, v1::StepResponse* response);
  void Plan(const v1::CommitDraftsRequest& request, v1::CommitDraftsResponse* response);

  // Puts the histories back: the step did not happen.
  void TakeBack();

  dataplane::StepRunner::StagedRows rows() const {
    return {buffers_.scored, buffers_.audited, buffers_.next};
  }
  const PolicyInForce& policy() const { return *policy_; }

 private:
  // What becomes of one row, beside its verdict.
  struct Fate {
    bool observed = false;
    bool audit = false;
  };
  using Verdict = dataplane::RowVerdict;

  template <typename Row, typename Response, typename PlanRow>
  void PlanRows(const google::protobuf::RepeatedPtrField<Row>& rows, Response* response,
                PlanRow plan_row);
  Verdict PlanStep(const v1::StepRow& row, uint32_t score_row, Fate* fate);
  Verdict PlanCommit(const v1::CommitRow& row, Fate* fate);
  Verdict PlanScored(Request& request, const v1::StepRow& row, uint32_t score_row);
  Verdict PlanNext(Request& request, uint64_t position, uint32_t next_n, uint32_t buffer,
                   Fate* fate);
  Verdict Take(const v1::RequestHandle& handle, Request** request);
  void Observe(Request& request, const kernels::ScoredRow& row);
  bool Predict(Request& request, int64_t position, uint32_t next_n, uint32_t buffer);
  const dataplane::SessionShape& shape() const { return session_.region().shape(); }

  Session& session_;
  Session::StepBuffers& buffers_;
  const std::shared_ptr<const PolicyInForce> policy_;
};

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/step_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/exploration.h"
#include "server/codec.h"

namespace spin::server {
namespace {

using dataplane::RowFault;
using dataplane::RowVerdict;

// Is the list that the row says it used the one spind made?
bool ListIsThere(const Request::StepState& state, const v1::StepRow& row) {
  const ListNote& list = state.lists[row.buffer()];
  return list.position == static_cast<int64_t>(row.position()) && list.next_n == row.next_n();
}

RowVerdict CheckRanges(const v1::StepRow& row, uint32_t max_next_n) {
  const bool scored = row.coverage() != v1::COVERAGE_UNSPECIFIED;
  if (row.buffer() > 1) return {RowFault::kInvalidField, "buffer"};
  if (!v1::Coverage_IsValid(row.coverage())) return {RowFault::kInvalidField, "coverage"};
  if (scored && (row.next_n() < 1 || row.next_n() > max_next_n)) {
    return {RowFault::kInvalidField, "next_n"};
  }
  if (scored && row.has_accepted() && (row.accepted() < 1 || row.accepted() > row.next_n())) {
    return {RowFault::kInvalidField, "accepted"};
  }
  if (row.position() > dataplane::kMaxPosition) return {RowFault::kInvalidField, "position"};
  if (row.next_position() > dataplane::kMaxPosition) {
    return {RowFault::kInvalidField, "next_position"};
  }
  if (row.next_next_n() < 1 || row.next_next_n() > max_next_n) {
    return {RowFault::kInvalidField, "next_next_n"};
  }
  return {};
}

}  // namespace

StepPlan::StepPlan(Session& session)
    : session_(session), buffers_(session.step_buffers()), policy_(session.policy()) {
  buffers_.requests.clear();
  buffers_.before.clear();
  buffers_.scored.clear();
  buffers_.audited.clear();
  buffers_.next.clear();
  ++buffers_.serial;
}

StepPlan::~StepPlan() { buffers_.requests.clear(); }

void StepPlan::TakeBack() {
  for (size_t i = 0; i < buffers_.requests.size(); ++i) {
    buffers_.requests[i]->step_state() = buffers_.before[i];
  }
}

template <typename Row, typename Response, typename PlanRow>
void StepPlan::PlanRows(const google::protobuf::RepeatedPtrField<Row>& rows, Response* response,
                        PlanRow plan_row) {
  for (int i = 0; i < rows.size(); ++i) {
    v1::StepRowResult& result = *response->add_results();
    Fate fate;
    const Verdict verdict = plan_row(rows[i], static_cast<uint32_t>(i), &fate);
    if (!verdict.ok()) *result.mutable_error() = ToProto(verdict, absl::StrCat("rows[", i, "]"));
    result.set_observed(fate.observed);
    result.set_audit(fate.audit);
  }
  response->set_policy_epoch(policy_->epoch);
}

void StepPlan::Plan(const v1::StepRequest& request, v1::StepResponse* response) {
  PlanRows(request.rows(), response,
           [this](const v1::StepRow& row, uint32_t score_row, Fate* fate) {
             return PlanStep(row, score_row, fate);
           });
}

void StepPlan::Plan(const v1::CommitDraftsRequest& request, v1::CommitDraftsResponse* response) {
  PlanRows(request.rows(), response, [this](const v1::CommitRow& row, uint32_t, Fate* fate) {
    return PlanCommit(row, fate);
  });
}

RowVerdict StepPlan::PlanStep(const v1::StepRow& row, uint32_t score_row, Fate* fate) {
  Verdict verdict = CheckRanges(row, static_cast<uint32_t>(shape().max_next_n));
  Request* request = nullptr;
  if (verdict.ok()) verdict = Take(row.handle(), &request);
  if (!verdict.ok()) return verdict;
  if (row.coverage() != v1::COVERAGE_UNSPECIFIED) {
    verdict = PlanScored(*request, row, score_row);
    if (!verdict.ok()) return verdict;
    fate->observed = true;
    if (request->step_state().pending.next_n > 0) return {};  // predicts after the verdict
  }
  return PlanNext(*request, row.next_position(), row.next_next_n(), 1 - row.buffer(), fate);
}

RowVerdict StepPlan::PlanCommit(const v1::CommitRow& row, Fate* fate) {
  Request* request = nullptr;
  if (Verdict verdict = Take(row.handle(), &request); !verdict.ok()) return verdict;
  kernels::ScoredRow pending = request->step_state().pending;
  if (pending.next_n == 0 || pending.position != static_cast<int64_t>(row.position())) {
    return {RowFault::kPosition, "position"};
  }
  if (row.accepted() < 1 || row.accepted() > pending.next_n) {
    return {RowFault::kInvalidField, "accepted"};
  }
  if (row.next_next_n() < 1 || row.next_next_n() > static_cast<uint32_t>(shape().max_next_n)) {
    return {RowFault::kInvalidField, "next_next_n"};
  }
  pending.accepted = row.accepted();
  Observe(*request, pending);
  fate->observed = true;
  return PlanNext(*request, row.next_position(), row.next_next_n(), 1 - pending.buffer, fate);
}

RowVerdict StepPlan::PlanScored(Request& request, const v1::StepRow& row, uint32_t score_row) {
  Request::StepState& state = request.step_state();
  const auto coverage =
      row.coverage() == v1::COVERAGE_ALL ? kernels::Coverage::kAll : kernels::Coverage::kKept;
  const Verdict verdict = dataplane::CheckScored(
      state.progress, request.capacity_slots(), shape().geometry,
      static_cast<int64_t>(row.position()), row.next_n(), coverage, row.resync());
  if (!verdict.ok()) return verdict;
  if (coverage == kernels::Coverage::kKept && !ListIsThere(state, row)) {
    return {RowFault::kStaleList, "buffer"};
  }
  const bool decided = row.has_accepted() || row.next_n() == 1;
  const kernels::ScoredRow scored = {.request = request.index(),
                                     .next_n = row.next_n(),
                                     .position = static_cast<int64_t>(row.position()),
                                     .accepted = row.has_accepted() ? row.accepted() : 1,
                                     .buffer = row.buffer(),
                                     .coverage = coverage,
                                     .score_row = score_row};
  if (decided) {
    Observe(request, scored);
  } else {
    state.pending = scored;
  }
  return {};
}

RowVerdict StepPlan::PlanNext(Request& request, uint64_t position, uint32_t next_n, uint32_t buffer,
                              Fate* fate) {
  const auto next = static_cast<int64_t>(position);
  const Verdict verdict = dataplane::CheckNext(
      request.step_state().progress, request.capacity_slots(), shape().geometry, next, next_n);
  if (verdict.ok()) fate->audit = Predict(request, next, next_n, buffer);
  return verdict;
}

// The request of a row, taken at most once in a step.
RowVerdict StepPlan::Take(const v1::RequestHandle& handle, Request** request) {
  std::shared_ptr<Request> found = session_.requests().Find(handle);
  if (found == nullptr) return {RowFault::kUnknownRequest, "handle"};
  if (found->step_state().last_step == buffers_.serial) return {RowFault::kInvalidField, "handle"};
  found->step_state().last_step = buffers_.serial;
  *request = found.get();
  buffers_.before.push_back(found->step_state());
  buffers_.requests.push_back(std::move(found));
  return {};
}

// Lets the row's accepted verifier rows enter the state.
void StepPlan::Observe(Request& request, const kernels::ScoredRow& row) {
  Request::StepState& state = request.step_state();
  const ListNote& list = state.lists[row.buffer];
  const bool audit = row.coverage == kernels::Coverage::kAll &&
                     state.audit_position == row.position && list.position == row.position &&
                     list.next_n == row.next_n;
  if (audit) buffers_.audited.push_back(row);
  buffers_.scored.push_back(row);
  state.progress = {true, row.position + row.accepted};
  state.pending = {};
}

// Makes a list for the row's next step in `buffer`; returns whether that step is an audit.
bool StepPlan::Predict(Request& request, int64_t position, uint32_t next_n, uint32_t buffer) {
  buffers_.next.push_back({.request = request.index(),
                           .next_n = next_n,
                           .position = position,
                           .buffer = buffer,
                           .generation = 0});
  Request::StepState& state = request.step_state();
  state.lists[buffer] = {position, next_n};
  const bool audit = kernels::AuditDue(policy_->kernels.seed, request.key_hash(), position,
                                       policy_->kernels.audit_every);
  state.audit_position = audit ? position : -1;
  return audit;
}

}  // namespace spin::server

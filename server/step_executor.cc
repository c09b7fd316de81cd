// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/step_executor.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/exploration.h"
#include "server/codec.h"
#include "server/refusal.h"

namespace spin::server {
namespace {

using dataplane::RowFault;
using dataplane::RowVerdict;

absl::Status SessionEnded() {
  return Refuse(absl::StatusCode::kAborted, v1::ERROR_REASON_CLOSED, "session_id",
                "the session was closed while the step waited");
}

// One step in the making: collects what the rows ask for, runs it, and tells each row its fate.
class StepPlan {
 public:
  explicit StepPlan(Session& session)
      : session_(session), buffers_(session.step_buffers()), policy_(session.policy()) {
    buffers_.requests.clear();
    buffers_.scored.clear();
    buffers_.audited.clear();
    buffers_.next.clear();
    ++buffers_.serial;
  }

  uint64_t policy_epoch() const { return policy_->epoch; }

  // The request of a row, taken at most once in a step.
  RowVerdict Take(const v1::RequestHandle& handle, Request** request) {
    std::shared_ptr<Request> found = session_.requests().Find(handle);
    if (found == nullptr) return {RowFault::kUnknownRequest, "handle"};
    if (found->step_state().last_step == buffers_.serial)
      return {RowFault::kInvalidField, "handle"};
    found->step_state().last_step = buffers_.serial;
    *request = found.get();
    buffers_.requests.push_back(std::move(found));
    return {};
  }

  // Lets the row's accepted verifier rows enter the state.
  void Observe(Request& request, const kernels::ScoredRow& row) {
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
  bool Predict(Request& request, int64_t position, uint32_t next_n, uint32_t buffer) {
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

  absl::Status Run(uint64_t done_timeline, kernels::Stream stream) {
    dataplane::StepRunner& runner = session_.runner();
    kernels::Device& device = session_.region().device();
    dataplane::Timeline& timeline = *runner.view().timeline;
    const absl::Time start = absl::Now();
    const kernels::ScoreView scores = runner.view().staged_scores();
    absl::Status status;
    status.Update(runner.Audit(buffers_.audited, scores, runner.all_layers(), stream));
    status.Update(runner.Observe(buffers_.scored, scores, runner.all_layers(),
                                 policy_->policy.decay, stream));
    const absl::Time observed = absl::Now();
    status.Update(runner.Predict(buffers_.next, policy_->kernels, runner.all_layers(), stream));
    if (done_timeline > 0)
      status.Update(device.WriteWord(&timeline.spin_done, done_timeline, stream));
    // Whoever closes a request after this may hand its pages to another.
    status.Update(device.Synchronize(stream));
    session_.CountStep(observed - start, absl::Now() - observed);
    buffers_.requests.clear();
    return status;
  }

 private:
  Session& session_;
  Session::StepBuffers& buffers_;
  const std::shared_ptr<const PolicyInForce> policy_;
};

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

// What becomes of one row, beside its verdict.
struct RowFate {
  bool observed = false;
  bool audit = false;
};

class RowPlanner {
 public:
  RowPlanner(Session& session, StepPlan& plan) : session_(session), plan_(plan) {}

  RowVerdict PlanStep(const v1::StepRow& row, uint32_t score_row, RowFate* fate) {
    RowVerdict verdict = CheckRanges(row, static_cast<uint32_t>(shape().max_next_n));
    Request* request = nullptr;
    if (verdict.ok()) verdict = plan_.Take(row.handle(), &request);
    if (!verdict.ok()) return verdict;
    if (row.coverage() != v1::COVERAGE_UNSPECIFIED) {
      verdict = PlanScored(*request, row, score_row);
      if (!verdict.ok()) return verdict;
      fate->observed = true;
      if (request->step_state().pending.next_n > 0) return {};  // predicts after the verdict
    }
    return PlanNext(*request, row.next_position(), row.next_next_n(), 1 - row.buffer(), fate);
  }

  RowVerdict PlanCommit(const v1::CommitRow& row, RowFate* fate) {
    Request* request = nullptr;
    if (RowVerdict verdict = plan_.Take(row.handle(), &request); !verdict.ok()) return verdict;
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
    plan_.Observe(*request, pending);
    fate->observed = true;
    return PlanNext(*request, row.next_position(), row.next_next_n(), 1 - pending.buffer, fate);
  }

 private:
  const dataplane::SessionShape& shape() const { return session_.region().shape(); }

  RowVerdict PlanScored(Request& request, const v1::StepRow& row, uint32_t score_row) {
    Request::StepState& state = request.step_state();
    const auto coverage =
        row.coverage() == v1::COVERAGE_ALL ? kernels::Coverage::kAll : kernels::Coverage::kKept;
    const RowVerdict verdict = dataplane::CheckScored(
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
      plan_.Observe(request, scored);
    } else {
      state.pending = scored;
    }
    return {};
  }

  RowVerdict PlanNext(Request& request, uint64_t position, uint32_t next_n, uint32_t buffer,
                      RowFate* fate) {
    const auto next = static_cast<int64_t>(position);
    const RowVerdict verdict = dataplane::CheckNext(
        request.step_state().progress, request.capacity_slots(), shape().geometry, next, next_n);
    if (verdict.ok()) fate->audit = plan_.Predict(request, next, next_n, buffer);
    return verdict;
  }

  Session& session_;
  StepPlan& plan_;
};

template <typename Row, typename Response, typename PlanRow>
void PlanRows(const google::protobuf::RepeatedPtrField<Row>& rows, Response* response,
              PlanRow plan_row) {
  for (int i = 0; i < rows.size(); ++i) {
    v1::StepRowResult& result = *response->add_results();
    RowFate fate;
    const RowVerdict verdict = plan_row(rows[i], static_cast<uint32_t>(i), &fate);
    if (!verdict.ok()) *result.mutable_error() = ToProto(verdict, absl::StrCat("rows[", i, "]"));
    result.set_observed(fate.observed);
    result.set_audit(fate.audit);
  }
}

// How soon a wait notices that nobody waits any more.
constexpr absl::Duration kWaitSlice = absl::Milliseconds(5);

absl::Status CheckRowCount(const Session& session, int rows) {
  const int limit = session.region().shape().max_requests;
  if (rows <= limit) return absl::OkStatus();
  return RefuseField(
      "rows", absl::StrCat("has ", rows, " entries, more than the session's ", limit, " requests"));
}

}  // namespace

// In slices, so that an ended session or an abandoned call does not hold up the steps of others.
absl::Status StepExecutor::WaitForEngine(Session& session, uint64_t value,
                                         absl::FunctionRef<bool()> abandoned) {
  if (value == 0) return absl::OkStatus();
  uint64_t& word = session.runner().view().timeline->engine_done;
  kernels::Device& device = session.region().device();
  const absl::Time deadline = absl::Now() + wait_limit_;
  for (;;) {
    const absl::Duration left = deadline - absl::Now();
    absl::Status reached = device.WaitWord(&word, value, std::min(left, kWaitSlice), stream_);
    if (reached.ok()) reached = device.Synchronize(stream_);
    if (session.ended()) return SessionEnded();
    if (abandoned()) return absl::CancelledError("the caller has given up");
    if (!absl::IsDeadlineExceeded(reached) || left <= kWaitSlice) return reached;
  }
}

absl::Status StepExecutor::Step(Session& session, const v1::StepRequest& request,
                                v1::StepResponse* response, absl::FunctionRef<bool()> abandoned) {
  if (session.ended()) return SessionEnded();
  absl::Status status = CheckRowCount(session, request.rows_size());
  if (!status.ok()) return status;
  // Before anything is noted down as observed: a step that never got its scores did not happen.
  status = WaitForEngine(session, request.wait_timeline(), abandoned);
  if (!status.ok()) return status;
  StepPlan plan(session);
  RowPlanner planner(session, plan);
  PlanRows(request.rows(), response,
           [&](const v1::StepRow& row, uint32_t score_row, RowFate* fate) {
             return planner.PlanStep(row, score_row, fate);
           });
  response->set_policy_epoch(plan.policy_epoch());
  return plan.Run(request.done_timeline(), stream_);
}

absl::Status StepExecutor::CommitDrafts(Session& session, const v1::CommitDraftsRequest& request,
                                        v1::CommitDraftsResponse* response) {
  if (session.ended()) return SessionEnded();
  absl::Status status = CheckRowCount(session, request.rows_size());
  if (!status.ok()) return status;
  StepPlan plan(session);
  RowPlanner planner(session, plan);
  PlanRows(request.rows(), response, [&](const v1::CommitRow& row, uint32_t, RowFate* fate) {
    return planner.PlanCommit(row, fate);
  });
  response->set_policy_epoch(plan.policy_epoch());
  return plan.Run(request.done_timeline(), stream_);
}

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/step_executor.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/word.h"
#include "server/refusal.h"

namespace spin::server {
namespace {

using kernels::Admission;

// How soon a wait notices that nobody waits any more.
constexpr absl::Duration kWaitSlice = absl::Milliseconds(5);
// How soon the end of a step is seen that the device has waited for. The engine does not wait for
// us to see it.
constexpr absl::Duration kLook = absl::Microseconds(50);

absl::Status SessionEnded() {
  return Refuse(absl::StatusCode::kAborted, v1::ERROR_REASON_CLOSED, "session_id",
                "the session was closed while the step waited");
}

absl::Status CheckRowCount(const Session& session, int rows) {
  const int limit = session.region().shape().max_requests;
  if (rows <= limit) return absl::OkStatus();
  return RefuseField(
      "rows", absl::StrCat("has ", rows, " entries, more than the session's ", limit, " requests"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepExecutor>> StepExecutor::Create(kernels::Device* device,
                                                                   absl::Duration wait_limit) {
  const auto stream = device->MakeStream();
  if (!stream.ok()) return stream.status();
  Markers markers;
  for (kernels::Marker* marker : {&markers.admitted, &markers.observed, &markers.predicted}) {
    const auto made = device->MakeTimedMarker();
    if (!made.ok()) return made.status();
    *marker = *made;
  }
  const auto over = device->MakeMarker();
  if (!over.ok()) return over.status();
  markers.over = *over;
  auto given_up = device->Allocate(sizeof(uint64_t));
  if (!given_up.ok()) return given_up.status();
  auto admission = device->AllocateHost(sizeof(Admission));
  if (!admission.ok()) return admission.status();
  absl::Status zeroed = device->Zero(given_up->get(), sizeof(uint64_t), *stream);
  zeroed.Update(device->Synchronize(*stream));
  if (!zeroed.ok()) return zeroed;
  return std::unique_ptr<StepExecutor>(new StepExecutor(
      device, wait_limit, *stream, markers, *std::move(given_up), *std::move(admission)));
}

StepExecutor::StepExecutor(kernels::Device* device, absl::Duration wait_limit,
                           kernels::Stream stream, const Markers& markers,
                           kernels::DeviceMemory given_up, kernels::DeviceMemory admission)
    : device_(device),
      wait_limit_(wait_limit),
      stream_(stream),
      markers_(markers),
      given_up_(std::move(given_up)),
      admission_(std::move(admission)) {}

absl::Status StepExecutor::Step(Session& session, const v1::StepRequest& request,
                                v1::StepResponse* response, absl::FunctionRef<bool()> abandoned) {
  if (session.ended()) return SessionEnded();
  if (absl::Status status = CheckRowCount(session, request.rows_size()); !status.ok()) {
    return status;
  }
  StepPlan plan(session);
  plan.Plan(request, response);
  return Run(session, plan, {request.wait_timeline(), request.done_timeline()}, abandoned);
}

absl::Status StepExecutor::CommitDrafts(Session& session, const v1::CommitDraftsRequest& request,
                                        v1::CommitDraftsResponse* response) {
  if (session.ended()) return SessionEnded();
  if (absl::Status status = CheckRowCount(session, request.rows_size()); !status.ok()) {
    return status;
  }
  StepPlan plan(session);
  plan.Plan(request, response);
  return Run(session, plan, {0, request.done_timeline()}, [] { return false; });
}

// Everything is enqueued before the engine's word has come, so that between the scores and the
// lists there is only the device. Whether the step happened is decided there, and noted here in the
// end.
absl::Status StepExecutor::Run(Session& session, StepPlan& plan, const Words& words,
                               absl::FunctionRef<bool()> abandoned) {
  const kernels::WordWait wait = {.word = &session.runner().view().timeline->engine_done,
                                  .value = words.wait,
                                  .limit = wait_limit_,
                                  .given_up = reinterpret_cast<uint64_t*>(given_up_.get()),
                                  .ticket = ++ticket_};
  admission() = Admission::kAdmitted;
  absl::Status status = session.runner().Upload(plan.rows(), plan.policy().kernels, stream_);
  if (status.ok() && words.wait > 0) status = Hold(session, wait, abandoned);
  if (!status.ok()) {
    plan.TakeBack();
    return status;
  }
  status = Launch(session, plan, words, wait);
  // Whoever closes a request after this may hand its pages to another.
  status.Update(words.wait > 0 ? Settle(session, wait, abandoned) : device_->Synchronize(stream_));
  if (!status.ok()) return status;
  if (admission() != Admission::kAdmitted) {
    plan.TakeBack();
    return WhyNot(session, abandoned);
  }
  const auto observe = device_->Between(markers_.admitted, markers_.observed);
  const auto predict = device_->Between(markers_.observed, markers_.predicted);
  if (observe.ok() && predict.ok()) session.CountStep(*observe, *predict);
  return absl::OkStatus();
}

// Makes the stream wait for the engine's word. Where that means waiting here, it is in slices: an
// ended session or an abandoned call does not hold up the steps of others.
absl::Status StepExecutor::Hold(const Session& session, const kernels::WordWait& wait,
                                absl::FunctionRef<bool()> abandoned) {
  if (device_->runs_ahead()) return device_->WaitWord(wait, stream_);
  const absl::Time deadline = absl::Now() + wait.limit;
  for (;;) {
    const absl::Duration left = deadline - absl::Now();
    const bool reached = kernels::WaitReached(*wait.word, wait.value, std::min(left, kWaitSlice));
    if (session.ended() || abandoned()) return WhyNot(session, abandoned);
    if (reached) return absl::OkStatus();
    if (left <= kWaitSlice) return WhyNot(session, abandoned);
  }
}

absl::Status StepExecutor::Launch(Session& session, const StepPlan& plan, const Words& words,
                                  const kernels::WordWait& wait) {
  dataplane::StepRunner& runner = session.runner();
  dataplane::Timeline& timeline = *runner.view().timeline;
  const dataplane::StepRunner::StagedRows rows = plan.rows();
  absl::Status status;
  if (words.wait > 0) {
    status = runner.Admit(rows,
                          {.given_up = wait.given_up,
                           .ticket = wait.ticket,
                           .skipped = &timeline.engine_skipped,
                           .step = words.wait,
                           .admission = &admission()},
                          stream_);
  }
  status.Update(device_->Mark(markers_.admitted, stream_));
  if (status.ok()) status = runner.ObserveStaged(rows, plan.policy().policy.decay, stream_);
  status.Update(device_->Mark(markers_.observed, stream_));
  if (status.ok()) status = runner.PredictStaged(rows, stream_);
  if (words.done > 0) status.Update(device_->WriteWord(&timeline.spin_done, words.done, stream_));
  status.Update(device_->Mark(markers_.predicted, stream_));
  status.Update(device_->Mark(markers_.over, stream_));
  return status;
}

// Waits until the step is over, and ends its wait early if nobody wants it any more.
absl::Status StepExecutor::Settle(const Session& session, const kernels::WordWait& wait,
                                  absl::FunctionRef<bool()> abandoned) {
  absl::Status status;
  for (bool given_up = false; !device_->Passed(markers_.over);) {
    if (!given_up && (session.ended() || abandoned())) {
      status = device_->GiveUp(wait);
      given_up = true;
    }
    absl::SleepFor(kLook);
  }
  status.Update(device_->Synchronize(stream_));
  return status;
}

absl::Status StepExecutor::WhyNot(const Session& session,
                                  absl::FunctionRef<bool()> abandoned) const {
  if (session.ended()) return SessionEnded();
  if (abandoned()) return absl::CancelledError("the caller has given up");
  return absl::DeadlineExceededError(
      admission() == Admission::kSkipped
          ? "the engine went on without staging the scores, since the step before was not over"
          : "the engine's timeline word was not reached in time");
}

}  // namespace spin::server

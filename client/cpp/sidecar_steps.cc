// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/sidecar_steps.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "client/cpp/step_request.h"

namespace spin::internal {
namespace {

// spind itself bounds how long it works on a step: this one is only met if it hangs.
constexpr absl::Duration kAnswerLimit = absl::Seconds(30);

void FillRows(const StepState& step, std::vector<StepCalls::Row>* out) {
  for (int r = 0; r < step.row_count; ++r) {
    const StepRowState& row = step.rows[r];
    StepCalls::Row& sent = out->emplace_back();
    if (!row.observe) continue;
    sent = {row.request, row.binding, row.position + row.accepted, row.blocks};
  }
}

// What the answer about one row changes in what was supposed of it.
void Correct(RequestHistory& history, const v1::StepRowResult& result, int64_t next_position) {
  if (!result.observed()) {
    NoteMissed(history, ReasonOf(result.error().reason()));
    return;
  }
  if (!history.has_list || history.list_position != next_position) return;  // it has gone on
  history.has_list = !result.has_error();
  if (result.has_error()) history.why_no_list = ReasonOf(result.error().reason());
  history.audit = result.audit();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SidecarSteps>> SidecarSteps::Create(kernels::Device* device,
                                                                   absl::Duration wait_limit,
                                                                   StepCounts* counts) {
  auto late = device->AllocateHost(sizeof(uint32_t));
  if (!late.ok()) return late.status();
  *reinterpret_cast<uint32_t*>(late->get()) = 0;
  return std::unique_ptr<SidecarSteps>(
      new SidecarSteps(device, wait_limit, counts, *std::move(late)));
}

SidecarSteps::SidecarSteps(kernels::Device* device, absl::Duration wait_limit, StepCounts* counts,
                           kernels::DeviceMemory late)
    : device_(device), wait_limit_(wait_limit), counts_(counts), late_(std::move(late)) {}

uint32_t SidecarSteps::late() const {
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(late_.get())).load();
}

void SidecarSteps::StartLife(uint64_t session_id) {
  session_id_ = session_id;
  begun_ = handed_over_ = answered_ = 0;
  trouble_ = Reason::kNone;
}

void SidecarSteps::TakeAnswers(OpenedSession* session) {
  if (session != nullptr && session->id() != session_id_) StartLife(session->id());
  calls_.TakeAnswered([this](const StepCalls::Call& call) { TakeAnswer(call); });
  if (const uint32_t now = late(); now != late_seen_) {
    late_seen_ = now;
    trouble_ = Reason::kDeadline;
  }
  if (session != nullptr && trouble_ != Reason::kNone && calls_.none_under_way()) Probe(*session);
}

void SidecarSteps::TakeAnswer(const StepCalls::Call& call) {
  if (call.request.session_id() != session_id_) return;
  if (call.status.ok()) answered_ = call.request.done_timeline();
  if (!call.status.ok()) {
    trouble_ = ReasonOf(call.status);
  } else if (call.probe) {
    trouble_ = Reason::kNone;
  }
  for (size_t r = 0; r < call.rows.size(); ++r) {
    const std::shared_ptr<RequestState> request = call.rows[r].request.lock();
    if (request == nullptr || !request->history().binding.SameAs(call.rows[r].binding)) continue;
    const bool told = call.status.ok() && static_cast<int>(r) < call.response.results_size();
    const auto& result =
        told ? call.response.results(static_cast<int>(r)) : v1::StepRowResult::default_instance();
    if (told) {
      Correct(request->history(), result, call.rows[r].next_position);
    } else {
      NoteMissed(request->history(), trouble_);
    }
    if (!result.observed()) counts_->CountUnobserved(call.rows[r].blocks);
  }
}

// A step of one row that names nothing.
void SidecarSteps::Probe(OpenedSession& session) {
  StepCalls::Call* const call = calls_.Next();
  call->probe = true;
  call->request.set_session_id(session.id());
  call->request.add_rows()->set_next_next_n(1);
  call->request.set_done_timeline(++begun_);
  handed_over_ = begun_;
  calls_.Send(session.control(), kAnswerLimit);
}

absl::Status SidecarSteps::Expect(OpenedSession& session, kernels::Binding* binding,
                                  kernels::Stream stream) {
  ++begun_;
  if (trouble_ != Reason::kNone || answered_ == handed_over_) return absl::OkStatus();
  dataplane::Timeline& timeline = *session.view().timeline;
  return device_->Expect({.word = &timeline.spin_done,
                          .value = handed_over_,
                          .limit_ns = absl::ToInt64Nanoseconds(wait_limit_),
                          .binding = binding,
                          .skipped = &timeline.engine_skipped,
                          .step = begun_,
                          .late = reinterpret_cast<uint32_t*>(late_.get())},
                         stream);
}

absl::StatusOr<bool> SidecarSteps::HandOver(const StepState& step, kernels::Stream stream) {
  if (trouble_ != Reason::kNone) return false;
  StepCalls::Call* const call = calls_.Next();
  if (call == nullptr) {
    trouble_ = Reason::kDeadline;
    return false;
  }
  FillStepRequest(step, begun_, &call->request);
  FillRows(step, &call->rows);
  const absl::Status written =
      device_->WriteWord(&step.session->view().timeline->engine_done, begun_, stream);
  if (!written.ok()) return written;
  handed_over_ = begun_;
  calls_.Send(step.session->control(), kAnswerLimit);
  return true;
}

}  // namespace spin::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/device_loop_impl.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/bad_argument.h"
#include "client/cpp/element_type.h"
#include "kernels/ema.h"

namespace spin::internal {
namespace {

dataplane::SessionShape ShapeOf(const SessionOptions& options) {
  return {.geometry = {.layers = options.model.layers,
                       .block = options.model.block_slots,
                       .topk = options.model.topk,
                       .tokens_per_slot = options.model.tokens_per_slot,
                       .state = DtypeOf(options.state.value_or(ElementType::kBFloat16))},
          .max_slots = options.model.max_slots,
          .max_requests = options.max_requests,
          .max_next_n = options.max_next_n,
          .scores = DtypeOf(options.staged_scores),
          .staging = options.executor == spin::Executor::kSidecar};
}

absl::Status CheckBuffers(const DeviceBuffers& buffers, int32_t max_blocks) {
  if (buffers.block_table == nullptr) return BadArgument("buffers.block_table", "is null");
  if (buffers.kept_table == nullptr) return BadArgument("buffers.kept_table", "is null");
  if (buffers.kept_slots == nullptr) return BadArgument("buffers.kept_slots", "is null");
  if (buffers.table_stride < max_blocks) {
    return BadArgument("buffers.table_stride",
                       absl::StrCat(buffers.table_stride, " is less than the ", max_blocks,
                                    " blocks of the longest context"));
  }
  return absl::OkStatus();
}

kernels::Binding BindingOf(const StepState& step) {
  if (step.session == nullptr) return {};  // no row names a request then
  const dataplane::SessionView& view = step.session->view();
  return {.slab = view.slab,
          .records = view.records,
          .counters = view.counters,
          .audits = view.audits,
          .headers = view.lists.headers,
          .blocks = view.lists.blocks,
          .masks = view.lists.masks,
          .epoch = view.epoch,
          .weights = kernels::WeightsOf(step.policy->kernels.decay),
          .staging = view.staging};
}

// Of Select, then of Audit.
int64_t WorkspaceBytes(const kernels::Device& device, const dataplane::SessionShape& shape) {
  const int32_t layers = shape.geometry.layers;
  return device.SelectWorkspaceBytes(layers, shape.max_requests, shape.max_blocks()) +
         device.AuditWorkspaceBytes(layers, shape.max_requests, shape.max_blocks());
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceLoopImpl>> DeviceLoopImpl::Create(
    SessionImpl* session, const DeviceBuffers& buffers) {
  const SessionOptions& options = session->options();
  if (!options.state.has_value() && options.device_uuid != kernels::kCpuUuid) {
    return BadArgument("options.state", "must be set, so that kernels fit whatever spind comes");
  }
  const dataplane::SessionShape shape = ShapeOf(options);
  if (absl::Status status = CheckBuffers(buffers, shape.max_blocks()); !status.ok()) return status;
  auto local = DeviceOf(options.device_uuid.empty() ? kernels::kCpuUuid : options.device_uuid);
  if (!local.ok()) return local.status();
  kernels::Device& device = *(*local)->device;
  auto control = ControlBlock::Create(&device, options.max_requests, (*local)->stream);
  if (!control.ok()) return control.status();
  auto in_flight = InFlight::Create(&device);
  if (!in_flight.ok()) return in_flight.status();
  auto workspace = device.Allocate(WorkspaceBytes(device, shape));
  if (!workspace.ok()) return workspace.status();
  auto unserved = device.Allocate(sizeof(uint32_t));
  if (!unserved.ok()) return unserved.status();
  auto unserved_on_host = device.AllocateHost(sizeof(uint32_t));
  if (!unserved_on_host.ok()) return unserved_on_host.status();
  *reinterpret_cast<uint32_t*>(unserved_on_host->get()) = 0;
  absl::Status zeroed = device.Zero(unserved->get(), sizeof(uint32_t), (*local)->stream);
  zeroed.Update(device.Synchronize((*local)->stream));
  if (!zeroed.ok()) return zeroed;
  std::unique_ptr<SidecarSteps> sidecar;
  if (options.executor == spin::Executor::kSidecar) {
    auto made = SidecarSteps::Create(&device, options.step_timeout, &session->counts());
    if (!made.ok()) return made.status();
    sidecar = *std::move(made);
  }
  return std::unique_ptr<DeviceLoopImpl>(
      new DeviceLoopImpl(session, buffers, *std::move(local), shape, *std::move(control),
                         *std::move(in_flight), std::move(sidecar), *std::move(workspace),
                         *std::move(unserved), *std::move(unserved_on_host)));
}

DeviceLoopImpl::DeviceLoopImpl(SessionImpl* session, const DeviceBuffers& buffers,
                               std::shared_ptr<const LocalDevice> local,
                               const dataplane::SessionShape& shape, ControlBlock control,
                               std::unique_ptr<InFlight> in_flight,
                               std::unique_ptr<SidecarSteps> sidecar,
                               kernels::DeviceMemory workspace, kernels::DeviceMemory unserved,
                               kernels::DeviceMemory unserved_on_host)
    : session_(session),
      buffers_(buffers),
      local_(std::move(local)),
      shape_(shape),
      planner_(session->options(), &session->link()),
      control_(std::move(control)),
      in_flight_(std::move(in_flight)),
      sidecar_(std::move(sidecar)),
      workspace_(std::move(workspace)),
      unserved_(std::move(unserved)),
      unserved_on_host_(std::move(unserved_on_host)) {
  step_.rows.resize(shape_.max_requests);
  step_.scored.reserve(shape_.max_requests);
  step_.next.reserve(shape_.max_requests);
  session_->link().SetHousekeeping(
      this, {.release =
                 [this] {
                   const bool passed = in_flight_->Release();
                   return passed && !(sidecar_ != nullptr && sidecar_->calls().HoldsAny());
                 },
             .may_write =
                 [this](const RequestState& request) {
                   return in_flight_->MayWrite(request) ||
                          (sidecar_ != nullptr && sidecar_->calls().Holds(request));
                 }});
}

DeviceLoopImpl::~DeviceLoopImpl() { session_->link().EndHousekeeping(this); }

absl::Status DeviceLoopImpl::BeginStep(absl::Span<const StepRow> rows, kernels::Stream stream) {
  if (step_.active) {
    if (absl::Status status = Abandon(stream); !status.ok()) return status;
  }
  if (static_cast<int>(rows.size()) > shape_.max_requests) {
    return Refuse(BadArgument("rows", absl::StrCat(rows.size(), " are more than max_requests, ",
                                                   shape_.max_requests)),
                  stream);
  }
  CountUnserved();
  auto current = session_->in_owner_process() ? session_->link().current() : nullptr;
  if (sidecar_ != nullptr) sidecar_->TakeAnswers(current.get());
  planner_.Begin(rows, std::move(current), step_);
  if (sidecar_ != nullptr && sidecar_->trouble() != Reason::kNone) {
    planner_.Suspend(sidecar_->trouble(), step_);
  }
  for (int r = 0; r < step_.row_count; ++r) {
    const StepRowState& row = step_.rows[r];
    if (!row.in_range) {
      return Refuse(
          BadArgument(absl::StrCat("rows[", r, "]"),
                      "position or next_n is out of the range that the session was created for"),
          stream);
    }
    session_->counts().CountRow(row.reason);
  }
  session_->counts().CountStep();
  accepted_ = !has_drafts();
  auto to = control_.Edit(stream);
  if (!to.ok()) return to.status();
  *to->binding = BindingOf(step_);
  if (sidecar_ == nullptr) to->binding->staging = nullptr;
  if (step_.policy != nullptr) *to->policy = step_.policy->kernels;
  control_.DropRows(*to);
  WriteRows(*to);
  // With drafts nothing is observed until the verdict is known.
  if (!has_drafts() || sidecar_ != nullptr) WriteScored(*to);
  absl::Status status = control_.Send(stream);
  if (status.ok() && sidecar_ != nullptr && step_.session != nullptr) {
    status = sidecar_->Expect(*step_.session, control_.on_device().binding, stream);
  }
  return status;
}

// Rows whose lists are compacted; all others keep all blocks, or have no slots. And rows whose
// lists are there to be made: these and the audited ones.
void DeviceLoopImpl::WriteRows(const ControlBlock::Parts& to) const {
  for (int r = 0; r < step_.row_count; ++r) {
    const StepRowState& row = step_.rows[r];
    to.rows[r].next_n = row.next_n;
    to.rows[r].position = row.position;
    if (!row.has_list()) continue;
    to.listed[r] = {.request = row.binding.index,
                    .next_n = row.next_n,
                    .position = row.position,
                    .buffer = row.buffer,
                    .generation = row.binding.generation};
    if (row.sparse()) to.rows[r] = to.listed[r];
  }
}

void DeviceLoopImpl::WriteScored(const ControlBlock::Parts& to) {
  planner_.PlanNext(step_);
  control_.DropEndRows(to);
  for (int r = 0; r < step_.row_count; ++r) {
    const StepRowState& row = step_.rows[r];
    if (!row.observe) continue;
    to.scored[r] = {.request = row.binding.index,
                    .next_n = row.next_n,
                    .position = row.position,
                    .accepted = row.accepted,
                    .buffer = row.buffer,
                    .coverage = row.coverage(),
                    .score_row = static_cast<uint32_t>(r)};
    if (row.reason == Reason::kAudit && sidecar_ == nullptr) to.audited[r] = to.scored[r];
  }
  for (size_t i = 0; i < step_.next.size(); ++i) to.next[i] = step_.next[i];
}

// The launches of a step that is refused must not find the rows of the one before.
absl::Status DeviceLoopImpl::Refuse(absl::Status why, kernels::Stream stream) {
  Finish();
  auto to = control_.Edit(stream);
  if (!to.ok()) return why;
  control_.DropRows(*to);
  (void)control_.Send(stream);
  return why;
}

bool DeviceLoopImpl::audit_due() const {
  if (!step_.active || sidecar_ != nullptr) return false;
  const auto rows = absl::MakeConstSpan(step_.rows).first(step_.row_count);
  return std::any_of(rows.begin(), rows.end(),
                     [](const StepRowState& row) { return row.reason == Reason::kAudit; });
}

RowPlan DeviceLoopImpl::plan(int row) const {
  if (!step_.active || row < 0 || row >= step_.row_count) return {false, Reason::kInvalid};
  return {step_.rows[row].sparse(), step_.rows[row].reason};
}

absl::Status DeviceLoopImpl::Accept(const EndOptions& verdict, kernels::Stream stream) {
  if (!step_.active) return absl::FailedPreconditionError("no step is in progress");
  if (!has_drafts()) {
    return absl::FailedPreconditionError(
        "without drafts (max_next_n 1) there is nothing to accept");
  }
  if (!planner_.TakeEndOptions(verdict, step_)) {
    return BadArgument("verdict", "accepted or next_n do not fit the rows of the step");
  }
  accepted_ = true;
  if (sidecar_ != nullptr) return absl::OkStatus();  // spind hears of it in EndStep
  auto to = control_.Edit(stream);
  if (!to.ok()) return to.status();
  WriteScored(*to);
  return control_.Send(stream);
}

absl::Status DeviceLoopImpl::EndStep(kernels::Stream stream) {
  if (!step_.active) return absl::FailedPreconditionError("no step is in progress");
  if (!accepted_) return Abandon(stream);
  const absl::StatusOr<bool> observed = Observed(stream);
  absl::Status status = observed.status();
  status.Update(in_flight_->Add(step_, stream));
  status.Update(device().Copy(unserved_on_host_.get(), unserved_.get(), sizeof(uint32_t), stream));
  const bool noted = observed.ok() && *observed;
  if (noted) {
    planner_.UpdateHistories(step_);
  } else if (step_.session != nullptr) {
    planner_.Forget(step_);
  }
  for (int r = 0; r < step_.row_count; ++r) {
    const StepRowState& row = step_.rows[r];
    if (!noted || !row.observe) session_->counts().CountUnobserved(row.blocks);
  }
  Finish();
  return status;
}

// Whether the rows that are to be observed were, or will be as far as is known.
absl::StatusOr<bool> DeviceLoopImpl::Observed(kernels::Stream stream) {
  if (step_.session == nullptr) return false;
  const auto rows = absl::MakeConstSpan(step_.rows).first(step_.row_count);
  const bool any =
      std::any_of(rows.begin(), rows.end(), [](const StepRowState& row) { return row.observe; });
  if (sidecar_ == nullptr || !any) return true;
  return sidecar_->HandOver(step_, stream);
}

// The step's launches may have been enqueued all the same.
absl::Status DeviceLoopImpl::Abandon(kernels::Stream stream) {
  absl::Status status = in_flight_->Add(step_, stream);
  planner_.Forget(step_);
  Finish();
  return status;
}

void DeviceLoopImpl::Finish() {
  for (int r = 0; r < step_.row_count; ++r) step_.rows[r].request = nullptr;
  step_.active = false;
  step_.session = nullptr;
  step_.policy = nullptr;
}

// Lists that were promised and did not serve: their rows kept all blocks after all. Reported per
// row, though each layer decides for itself.
void DeviceLoopImpl::CountUnserved() {
  const uint32_t now =
      std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(unserved_on_host_.get())).load();
  const auto layers = static_cast<uint32_t>(shape_.geometry.layers);
  for (; now - unserved_counted_ >= layers; unserved_counted_ += layers) {
    session_->counts().CountStale();
  }
}

}  // namespace spin::internal

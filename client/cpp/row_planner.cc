// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/row_planner.h"

#include <algorithm>
#include <utility>

#include "client/cpp/step_request.h"
#include "kernels/exploration.h"
#include "kernels/geometry.h"

namespace spin::internal {
namespace {

// State is grown when this many slots are left: hundreds of decode steps ahead of need.
constexpr int64_t kExtendAhead = 512;

kernels::Geometry GeometryOf(const Model& model) {
  return {.layers = model.layers,
          .block = model.block_slots,
          .topk = model.topk,
          .tokens_per_slot = model.tokens_per_slot,
          .state = kernels::Dtype::kF32};  // plays no part in the client's own arithmetic
}

}  // namespace

RowPlanner::RowPlanner(const SessionOptions& options, Link* link)
    : options_(options),
      link_(link),
      geometry_(GeometryOf(options.model)),
      max_blocks_(kernels::BlocksOf(options.model.max_slots, options.model.block_slots)) {}

void RowPlanner::Begin(absl::Span<const StepRow> asked, std::shared_ptr<OpenedSession> session,
                       StepState& step) {
  ++step.serial;
  step.active = true;
  step.broken = asked.size() > step.rows.size();
  step.session = std::move(session);
  step.policy = step.session != nullptr ? step.session->policy() : nullptr;
  step.row_count = static_cast<int>(std::min(asked.size(), step.rows.size()));
  step.scored.clear();
  step.audited.clear();
  step.next.clear();
  for (int r = 0; r < step.row_count; ++r) {
    step.rows[r].request = nullptr;
    PlanRow(asked[r], step, step.rows[r]);
  }
}

void RowPlanner::PlanRow(const StepRow& asked, StepState& step, StepRowState& row) {
  row.position = asked.position;
  row.next_n = static_cast<uint32_t>(std::clamp(asked.next_n, 1, options_.max_next_n));
  row.next_next_n = row.next_n;  // until End says otherwise
  row.accepted = row.next_n;
  row.observe = false;
  row.resync = false;
  row.buffer = 0;
  const bool placed = asked.position >= 0 && asked.position <= dataplane::kMaxPosition;
  row.all_blocks =
      placed ? kernels::ExtentOf(row.position, static_cast<int32_t>(row.next_n), geometry_).blocks
             : 0;
  row.in_range =
      placed && row.all_blocks <= max_blocks_ && asked.next_n == static_cast<int>(row.next_n);
  row.blocks = row.all_blocks <= max_blocks_ ? row.all_blocks : 0;
  row.reason = CheckRow(asked, step, row);
}

// Decides whether a row can use its lists, and if not, whether at least its scores can be observed.
Reason RowPlanner::CheckRow(const StepRow& asked, const StepState& step, StepRowState& row) {
  if (asked.request == nullptr || asked.request->state_ == nullptr || !row.in_range) {
    return Reason::kInvalid;
  }
  row.request = asked.request->state_;
  const StepRowState* const here = &row;
  const bool twice = std::any_of(step.rows.data(), here, [&row](const StepRowState& earlier) {
    return earlier.request == row.request;
  });
  if (twice) return Reason::kInvalid;
  if (step.session == nullptr) {
    row.request->history() = {};
    return link_->refused_for_room() ? Reason::kCapacity : Reason::kNoSidecar;
  }
  if (!step.policy->enabled) {
    row.request->history().gap = true;
    row.request->history().has_list = false;
    row.request->history().why_no_list = Reason::kCold;
    return Reason::kOff;
  }
  row.binding = row.request->binding();
  if (row.binding.session_id != step.session->id()) {
    row.request->history() = {};
    if (row.binding.session_id != 0) return Reason::kEpoch;
    const absl::Status why = row.request->status();
    if (absl::IsResourceExhausted(why)) return Reason::kCapacity;
    return absl::IsUnavailable(why) || absl::IsDeadlineExceeded(why) ? Reason::kNoSidecar
                                                                     : Reason::kInvalid;
  }
  // Where tokens share a slot, the first have none.
  return row.blocks > 0 ? CheckHistory(row) : Reason::kCold;
}

Reason RowPlanner::CheckHistory(StepRowState& row) {
  RequestHistory& history = row.request->history();
  if (history.reopening.session_id != 0 && history.reopening.SameAs(row.binding)) {
    return Reason::kPosition;
  }
  if (!history.binding.SameAs(row.binding)) history = {};
  history.binding = row.binding;
  ExtendAhead(row);
  const dataplane::Progress& progress = history.progress;
  const bool jumps = progress.warm && row.position != progress.next_position;
  if (progress.warm && row.position < progress.next_position) {
    history = {};  // it cannot be taken back: start afresh
    history.reopening = row.binding;
    link_->Soon(Mailbox::Chore::kReopen, row.request);
    return Reason::kPosition;
  }
  row.resync = jumps || history.gap;
  row.buffer = history.buffer;
  const dataplane::RowVerdict verdict =
      dataplane::CheckScored(progress, row.binding.capacity_slots, geometry_, row.position,
                             row.next_n, kernels::Coverage::kAll, row.resync);
  if (!verdict.ok()) {
    history.gap = true;
    return verdict.fault == dataplane::RowFault::kCapacity ? Reason::kCapacity : Reason::kInvalid;
  }
  row.observe = true;
  if (jumps && !history.gap) return Reason::kPosition;
  if (!history.has_list) return history.why_no_list;
  if (history.list_position != row.position || history.list_next_n != row.next_n) {
    return Reason::kStale;
  }
  return history.audit ? Reason::kAudit : Reason::kNone;
}

void RowPlanner::ExtendAhead(const StepRowState& row) {
  const int64_t query =
      kernels::QuerySlot(row.position + row.next_n, options_.model.tokens_per_slot);
  const int64_t capacity = row.binding.capacity_slots;
  if (query + kExtendAhead < capacity || capacity >= options_.model.max_slots) return;
  const int64_t wanted =
      std::min(std::max(query, capacity) + kExtendAhead, options_.model.max_slots);
  if (row.request->wanted_slots() >= wanted) return;  // asked already
  row.request->Want(wanted);
  link_->Soon(Mailbox::Chore::kExtend, row.request);
}

// A list may lie beyond the request's state.
bool RowPlanner::CanPredict(const StepRowState& row) const {
  const dataplane::Progress after = {true, row.position + row.accepted};
  return dataplane::CheckNext(after, row.binding.capacity_slots, geometry_, after.next_position,
                              row.next_next_n)
      .ok();
}

void RowPlanner::PlanNext(StepState& step) const {
  step.next.clear();
  for (int r = 0; r < step.row_count; ++r) {
    const StepRowState& row = step.rows[r];
    if (!row.observe || !CanPredict(row)) continue;
    step.next.push_back({.request = row.binding.index,
                         .next_n = row.next_next_n,
                         .position = row.position + row.accepted,
                         .buffer = 1 - row.buffer,
                         .generation = row.binding.generation});
  }
}

void RowPlanner::UpdateHistories(StepState& step) const {
  const kernels::Policy& policy = step.policy->kernels;
  for (int r = 0; r < step.row_count; ++r) {
    const StepRowState& row = step.rows[r];
    if (!row.observe) continue;
    RequestHistory& history = row.request->history();
    history.progress = {true, row.position + row.accepted};
    history.gap = false;
    history.has_list = CanPredict(row);
    history.why_no_list = Reason::kCapacity;
    history.list_position = history.progress.next_position;
    history.list_next_n = row.next_next_n;
    history.buffer = 1 - row.buffer;
    history.audit = kernels::AuditDue(policy.seed, row.request->key_hash(), history.list_position,
                                      policy.audit_every);
  }
}

void RowPlanner::Suspend(Reason reason, StepState& step) const {
  for (int r = 0; r < step.row_count; ++r) {
    StepRowState& row = step.rows[r];
    if (!row.observe) continue;
    row.observe = false;
    row.reason = reason;
    NoteMissed(row.request->history(), Reason::kCold);
  }
}

void RowPlanner::Forget(StepState& step) const {
  for (int r = 0; r < step.row_count; ++r) {
    const StepRowState& row = step.rows[r];
    if (row.request == nullptr) continue;
    NoteMissed(row.request->history(), Reason::kCold);
  }
}

bool RowPlanner::TakeEndOptions(const EndOptions& end, StepState& step) const {
  const auto rows = static_cast<size_t>(step.row_count);
  if (!end.accepted.empty() && end.accepted.size() != rows) return false;
  if (!end.next_n.empty() && end.next_n.size() != rows) return false;
  for (size_t r = 0; r < rows; ++r) {
    StepRowState& row = step.rows[r];
    const int accepted = end.accepted.empty() ? static_cast<int>(row.next_n) : end.accepted[r];
    const int next_n = end.next_n.empty() ? static_cast<int>(row.next_n) : end.next_n[r];
    if (accepted < 1 || accepted > static_cast<int>(row.next_n)) return false;
    if (next_n < 1 || next_n > options_.max_next_n) return false;
    row.accepted = static_cast<uint32_t>(accepted);
    row.next_next_n = static_cast<uint32_t>(next_n);
  }
  return true;
}

}  // namespace spin::internal

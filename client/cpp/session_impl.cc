// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/session_impl.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "absl/time/clock.h"
#include "client/cpp/inline_executor.h"
#include "client/cpp/sidecar_executor.h"
#include "kernels/geometry.h"

namespace spin::internal {
namespace {

// State is grown when this many slots are left: hundreds of decode steps ahead of need.
constexpr int64_t kExtendAhead = 512;

std::unique_ptr<Executor> MakeExecutor(const SessionOptions& options, StepCounts* counts) {
  if (options.executor == spin::Executor::kInline) return std::make_unique<InlineExecutor>(counts);
  return std::make_unique<SidecarExecutor>(options.step_timeout, counts);
}

kernels::Geometry GeometryOf(const Model& model) {
  return {.layers = model.layers,
          .block = model.block_slots,
          .topk = model.topk,
          .tokens_per_slot = model.tokens_per_slot,
          .state = kernels::Dtype::kF32};  // plays no part in the client's own arithmetic
}

// A list from shared memory is believed only if scoring its blocks cannot go wrong: ascending,
// within the context, with the partial last block.
bool IsSound(const int32_t* list, int32_t count, int32_t blocks) {
  if (count < 1 || count > blocks || list[0] < 0 || list[count - 1] != blocks - 1) return false;
  for (int32_t i = 1; i < count; ++i) {
    if (list[i] <= list[i - 1]) return false;
  }
  return true;
}

}  // namespace

SessionImpl::SessionImpl(const SessionOptions& options)
    : options_(options),
      owner_pid_(getpid()),
      executor_(MakeExecutor(options, &counts_)),
      link_(options, &counts_) {
  step_.layer_taken.resize(options.model.layers);
  step_.rows.resize(options.max_requests);
  step_.scored.reserve(options.max_requests);
  step_.audited.reserve(options.max_requests);
  step_.next.reserve(options.max_requests);
  step_.identity.resize(kernels::BlocksOf(options.model.max_slots, options.model.block_slots));
  std::iota(step_.identity.begin(), step_.identity.end(), 0);
}

bool SessionImpl::in_owner_process() const { return getpid() == owner_pid_; }

uint64_t SessionImpl::BeginStep(absl::Span<const StepRow> rows) {
  if (step_.active) Forget();  // superseded: its Step is void now
  ++step_.serial;
  step_.active = true;
  step_.broken = rows.size() > step_.rows.size();
  step_.session = in_owner_process() ? link_.current() : nullptr;
  step_.policy = step_.session != nullptr ? step_.session->policy() : nullptr;
  step_.row_count = static_cast<int>(std::min(rows.size(), step_.rows.size()));
  step_.layers_taken = 0;
  std::fill(step_.layer_taken.begin(), step_.layer_taken.end(), false);
  step_.scored.clear();
  step_.audited.clear();
  step_.observe_time = absl::ZeroDuration();
  step_.predict_time = absl::ZeroDuration();
  for (int r = 0; r < step_.row_count; ++r) {
    step_.rows[r].request = nullptr;
    PlanRow(rows[r], step_.rows[r]);
    counts_.CountRow(step_.rows[r].reason);
  }
  counts_.CountStep();
  return step_.serial;
}

void SessionImpl::PlanRow(const StepRow& asked, StepRowState& row) {
  row.position = asked.position;
  row.next_n = static_cast<uint32_t>(std::clamp(asked.next_n, 1, options_.max_next_n));
  row.next_next_n = row.next_n;  // until End says otherwise
  row.accepted = row.next_n;
  row.observe = false;
  row.resync = false;
  row.buffer = 0;
  const kernels::Geometry geometry = GeometryOf(options_.model);
  const bool placed = asked.position >= 0 && asked.position <= dataplane::kMaxPosition;
  row.blocks =
      placed ? kernels::ExtentOf(row.position, static_cast<int32_t>(row.next_n), geometry).blocks
             : 0;
  if (row.blocks > static_cast<int32_t>(step_.identity.size())) row.blocks = 0;
  row.reason = CheckRow(asked, row);
  if (!row.observe) return;
  const kernels::ScoredRow scored = {.request = row.binding.index,
                                     .next_n = row.next_n,
                                     .position = row.position,
                                     .accepted = row.next_n,
                                     .buffer = row.buffer,
                                     .coverage = row.coverage(),
                                     .score_row = static_cast<uint32_t>(&row - step_.rows.data())};
  step_.scored.push_back(scored);
  if (row.reason == Reason::kAudit) step_.audited.push_back(scored);
}

// Decides whether a row can use its lists, and if not, whether at least its scores can be observed.
Reason SessionImpl::CheckRow(const StepRow& asked, StepRowState& row) {
  if (asked.request == nullptr || asked.request->state_ == nullptr || row.blocks == 0 ||
      asked.next_n != static_cast<int>(row.next_n)) {
    return Reason::kInvalid;
  }
  row.request = asked.request->state_;
  const bool twice = std::any_of(step_.rows.data(), &row, [&row](const StepRowState& earlier) {
    return earlier.request == row.request;
  });
  if (twice) return Reason::kInvalid;
  if (step_.session == nullptr) {
    row.request->history() = {};
    return Reason::kNoSidecar;
  }
  if (!step_.policy->enabled) {
    row.request->history().gap = true;
    row.request->history().has_list = false;
    row.request->history().why_no_list = Reason::kCold;
    return Reason::kOff;
  }
  row.binding = row.request->binding();
  if (row.binding.session_id != step_.session->id()) {
    row.request->history() = {};
    if (row.binding.session_id != 0) return Reason::kEpoch;
    const absl::Status why = row.request->status();
    if (absl::IsResourceExhausted(why)) return Reason::kCapacity;
    return absl::IsUnavailable(why) || absl::IsDeadlineExceeded(why) ? Reason::kNoSidecar
                                                                     : Reason::kInvalid;
  }
  return CheckHistory(row);
}

Reason SessionImpl::CheckHistory(StepRowState& row) {
  RequestHistory& history = row.request->history();
  if (!history.binding.SameAs(row.binding)) history = {};
  history.binding = row.binding;
  ExtendAhead(row);
  const dataplane::Progress& progress = history.progress;
  const bool jumps = progress.warm && row.position != progress.next_position;
  if (progress.warm && row.position < progress.next_position) {
    link_.Soon(Mailbox::Chore::kReopen, row.request);  // history cannot be taken back: start afresh
    history.binding = {};
    return Reason::kPosition;
  }
  row.resync = jumps;
  row.buffer = history.buffer;
  const dataplane::RowVerdict verdict =
      dataplane::CheckScored(progress, row.binding.capacity_slots, GeometryOf(options_.model),
                             row.position, row.next_n, kernels::Coverage::kAll, row.resync);
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
  return TakeLists(row);
}

// Copies the row's lists out of the slab, if every one of them was made for this step.
Reason SessionImpl::TakeLists(StepRowState& row) {
  const dataplane::SessionView& view = step_.session->view();
  const kernels::ListStamp expected =
      view.StampFor(row.binding.generation, row.position, row.next_n);
  row.kept.resize(static_cast<size_t>(options_.model.layers) * step_.identity.size());
  row.counts.resize(options_.model.layers);
  for (int layer = 0; layer < options_.model.layers; ++layer) {
    const kernels::ListHeader header = *view.lists.Header(row.buffer, row.binding.index, layer);
    if (!kernels::SameStamp(header.stamp, expected)) return Reason::kStale;
    if (header.count < 1 || header.count > row.blocks || header.blocks != row.blocks) {
      return Reason::kInvalid;
    }
    const int32_t* list = view.lists.Blocks(row.buffer, row.binding.index, layer);
    int32_t* copy = row.kept.data() + layer * step_.identity.size();
    std::copy_n(list, header.count, copy);
    if (!IsSound(copy, header.count, row.blocks)) return Reason::kInvalid;
    row.counts[layer] = header.count;
  }
  return row.request->history().audit ? Reason::kAudit : Reason::kNone;
}

void SessionImpl::ExtendAhead(const StepRowState& row) {
  const int64_t query =
      kernels::QuerySlot(row.position + row.next_n, options_.model.tokens_per_slot);
  const int64_t capacity = row.binding.capacity_slots;
  if (query + kExtendAhead < capacity || capacity >= options_.model.max_slots) return;
  const int64_t wanted =
      std::min(std::max(query, capacity) + kExtendAhead, options_.model.max_slots);
  if (row.request->wanted_slots() >= wanted) return;  // asked already
  row.request->Want(wanted);
  link_.Soon(Mailbox::Chore::kExtend, row.request);
}

KeptBlocks SessionImpl::Kept(uint64_t serial, int layer, int row) const {
  const bool known = IsCurrent(serial) && layer >= 0 && layer < options_.model.layers && row >= 0 &&
                     row < step_.row_count;
  if (!known) return {{}, true, Reason::kInvalid};
  const StepRowState& state = step_.rows[row];
  if (!state.sparse()) {
    return {absl::MakeConstSpan(step_.identity).first(state.blocks), true, state.reason};
  }
  const int32_t count = state.counts[layer];
  return {absl::MakeConstSpan(state.kept.data() + layer * step_.identity.size(), count),
          count == state.blocks, Reason::kNone};
}

void SessionImpl::PutScores(uint64_t serial, int layer, const Scores& scores) {
  if (!IsCurrent(serial)) return;
  const bool expected = layer >= 0 && layer < options_.model.layers && !step_.layer_taken[layer] &&
                        scores.data != nullptr && scores.row_stride >= 0 &&
                        scores.draft_stride >= 0;
  if (!expected) {
    step_.broken = true;
    return;
  }
  step_.layer_taken[layer] = true;
  ++step_.layers_taken;
  if (step_.session == nullptr || step_.scored.empty() || step_.broken) return;
  if (!in_owner_process()) return;  // forked in the middle of the step: it is the parent's
  if (!executor_->TakeLayer(step_, layer, scores).ok()) step_.broken = true;
}

// Fills in verdicts and next widths; false if they do not fit the rows.
bool SessionImpl::TakeEndOptions(const EndOptions& options) {
  const auto rows = static_cast<size_t>(step_.row_count);
  if (!options.accepted.empty() && options.accepted.size() != rows) return false;
  if (!options.next_n.empty() && options.next_n.size() != rows) return false;
  for (size_t r = 0; r < rows; ++r) {
    StepRowState& row = step_.rows[r];
    const int accepted =
        options.accepted.empty() ? static_cast<int>(row.next_n) : options.accepted[r];
    const int next_n = options.next_n.empty() ? static_cast<int>(row.next_n) : options.next_n[r];
    if (accepted < 1 || accepted > static_cast<int>(row.next_n)) return false;
    if (next_n < 1 || next_n > options_.max_next_n) return false;
    row.accepted = static_cast<uint32_t>(accepted);
    row.next_next_n = static_cast<uint32_t>(next_n);
  }
  return true;
}

void SessionImpl::EndStep(uint64_t serial, const EndOptions& options) {
  if (!IsCurrent(serial)) return;
  const bool whole =
      !step_.broken && step_.layers_taken == options_.model.layers && TakeEndOptions(options);
  const bool alive = step_.session != nullptr && !step_.session->ended() && in_owner_process();
  if (!whole || !alive) return Forget();
  if (!step_.scored.empty() && !executor_->Finish(step_).ok()) return Forget();
  for (int r = 0; r < step_.row_count; ++r) {
    if (!step_.rows[r].observe) counts_.CountUnobserved(step_.rows[r].blocks);
  }
  Finish();
}

void SessionImpl::DropStep(uint64_t serial) {
  if (IsCurrent(serial)) Forget();
}

// Ends the step without its scores: the rows go on with a full scan.
void SessionImpl::Forget() {
  for (int r = 0; r < step_.row_count; ++r) {
    const StepRowState& row = step_.rows[r];
    if (!row.sparse()) counts_.CountUnobserved(row.blocks);
    if (row.request == nullptr) continue;
    RequestHistory& history = row.request->history();
    history.has_list = false;
    history.why_no_list = Reason::kCold;
    history.gap = true;
  }
  Finish();
}

// Lets go of everything the step held: requests that were closed meanwhile, the mapping of a spind
// that is gone.
void SessionImpl::Finish() {
  for (int r = 0; r < step_.row_count; ++r) step_.rows[r].request = nullptr;
  step_.active = false;
  step_.session = nullptr;
  step_.policy = nullptr;
}

}  // namespace spin::internal

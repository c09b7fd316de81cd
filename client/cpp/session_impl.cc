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

std::unique_ptr<Executor> MakeExecutor(const SessionOptions& options, const RowPlanner* planner,
                                       StepCounts* counts) {
  if (options.executor == spin::Executor::kInline) {
    return std::make_unique<InlineExecutor>(planner, counts);
  }
  return std::make_unique<SidecarExecutor>(options.step_timeout, counts);
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
      link_(options, &counts_),
      planner_(options_, &link_),
      executor_(MakeExecutor(options, &planner_, &counts_)) {
  step_.layer_taken.resize(options.model.layers);
  step_.rows.resize(options.max_requests);
  step_.scored.reserve(options.max_requests);
  step_.audited.reserve(options.max_requests);
  step_.next.reserve(options.max_requests);
  NameBlocks(planner_.max_blocks());
}

bool SessionImpl::in_owner_process() const { return getpid() == owner_pid_; }

uint64_t SessionImpl::BeginStep(absl::Span<const StepRow> rows) {
  if (step_.active) Forget();  // superseded: its Step is void now
  planner_.Begin(rows, HostSession(), step_);
  for (int r = 0; r < step_.row_count; ++r) NameBlocks(step_.rows[r].all_blocks);
  step_.layers_taken = 0;
  std::fill(step_.layer_taken.begin(), step_.layer_taken.end(), false);
  step_.observe_time = absl::ZeroDuration();
  step_.predict_time = absl::ZeroDuration();
  for (int r = 0; r < step_.row_count; ++r) {
    TakeRow(r);
    counts_.CountRow(step_.rows[r].reason);
  }
  counts_.CountStep();
  return step_.serial;
}

// All blocks of a context can be named, also of one that is longer than was said.
void SessionImpl::NameBlocks(int32_t count) {
  const size_t named = everything_.size();
  if (static_cast<size_t>(count) <= named) return;
  everything_.resize(count);
  std::iota(everything_.begin() + named, everything_.end(), static_cast<int32_t>(named));
}

// The session, if host code can read its slab: on a GPU steps are a DeviceLoop's.
std::shared_ptr<OpenedSession> SessionImpl::HostSession() const {
  auto session = in_owner_process() ? link_.current() : nullptr;
  return session != nullptr && session->device().uuid() == kernels::kCpuUuid ? session : nullptr;
}

// Takes the row's lists, and notes what is to be observed of it.
void SessionImpl::TakeRow(int r) {
  StepRowState& row = step_.rows[r];
  if (row.has_list()) {
    const Reason fault = TakeLists(row);
    if (fault != Reason::kNone) row.reason = fault;
  }
  if (!row.observe) return;
  const kernels::ScoredRow scored = {.request = row.binding.index,
                                     .next_n = row.next_n,
                                     .position = row.position,
                                     .accepted = row.next_n,
                                     .buffer = row.buffer,
                                     .coverage = row.coverage(),
                                     .score_row = static_cast<uint32_t>(r)};
  step_.scored.push_back(scored);
  if (row.reason == Reason::kAudit) step_.audited.push_back(scored);
}

// Copies the row's lists out of the slab, if every one of them was made for this step.
Reason SessionImpl::TakeLists(StepRowState& row) {
  const dataplane::SessionView& view = step_.session->view();
  const kernels::ListStamp expected =
      view.StampFor(row.binding.generation, row.position, row.next_n);
  row.kept.resize(static_cast<size_t>(options_.model.layers) * planner_.max_blocks());
  row.counts.resize(options_.model.layers);
  for (int layer = 0; layer < options_.model.layers; ++layer) {
    const kernels::ListHeader header = *view.lists.Header(row.buffer, row.binding.index, layer);
    if (!kernels::SameStamp(header.stamp, expected)) return Reason::kStale;
    if (header.count < 1 || header.count > row.blocks || header.blocks != row.blocks) {
      return Reason::kInvalid;
    }
    const int32_t* list = view.lists.Blocks(row.buffer, row.binding.index, layer);
    int32_t* copy = row.kept.data() + static_cast<size_t>(layer) * planner_.max_blocks();
    std::copy_n(list, header.count, copy);
    if (!IsSound(copy, header.count, row.blocks)) return Reason::kInvalid;
    row.counts[layer] = header.count;
  }
  return Reason::kNone;
}

KeptBlocks SessionImpl::Kept(uint64_t serial, int layer, int row) const {
  const bool known = IsCurrent(serial) && layer >= 0 && layer < options_.model.layers && row >= 0 &&
                     row < step_.row_count;
  if (!known) return {{}, true, Reason::kInvalid};
  const StepRowState& state = step_.rows[row];
  if (!state.sparse()) {
    return {absl::MakeConstSpan(everything_).first(state.all_blocks), true, state.reason};
  }
  const int32_t count = state.counts[layer];
  return {absl::MakeConstSpan(state.kept.data() + layer * planner_.max_blocks(), count),
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

void SessionImpl::EndStep(uint64_t serial, const EndOptions& options) {
  if (!IsCurrent(serial)) return;
  const bool whole = !step_.broken && step_.layers_taken == options_.model.layers &&
                     planner_.TakeEndOptions(options, step_);
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
  }
  planner_.Forget(step_);
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

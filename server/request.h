// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "dataplane/progress.h"
#include "kernels/rows.h"
#include "server/extents.h"
#include "server/session_region.h"

// An open request: its record and pages in the slab, and what is known of its history. Shared by
// the table and by every step that works on it; the memory goes back when the last of them lets go,
// never under a running step.
namespace spin::server {

// What a list buffer of the request holds, as far as spind made it.
struct ListNote {
  int64_t position = -1;  // -1: nothing
  uint32_t next_n = 0;
};

class Request {
 public:
  // Takes a record of the region. CAPACITY if all are taken, or if the slab has no room for
  // `slots`.
  static absl::StatusOr<std::shared_ptr<Request>> Create(std::shared_ptr<SessionRegion> region,
                                                         std::string key, int64_t slots,
                                                         bool zero_init);
  ~Request();

  // Makes room for at least `slots` slots; only ever grows. Not from two threads at once.
  absl::Status Grow(int64_t slots, bool zero_init);

  // Copies V and D of `parent`, and what is known of its history. The parent must have no step in
  // flight.
  absl::Status InheritFrom(const Request& parent);

  uint32_t index() const { return slot_.index; }
  uint32_t generation() const { return slot_.generation; }
  const std::string& key() const { return key_; }
  uint64_t key_hash() const { return key_hash_; }
  int64_t capacity_slots() const { return capacity_slots_.load(std::memory_order_acquire); }
  uint64_t state_bytes() const { return state_bytes_.load(std::memory_order_relaxed); }

  // Of the sidecar executor; touched by the step thread only.
  struct StepState {
    dataplane::Progress progress;
    ListNote lists[2];
    int64_t audit_position = -1;      // the step at this position is an audit
    kernels::ScoredRow pending = {};  // drafts that wait for a verdict, if pending.next_n > 0
    uint64_t last_step = 0;           // serial of the step that named the request last
  };
  StepState& step_state() { return step_state_; }

 private:
  Request(std::shared_ptr<SessionRegion> region, std::string key, SessionRegion::Slot slot);

  kernels::RequestRecord& record() const { return region_->record(slot_.index); }
  std::vector<uint64_t> PageOffsets() const ABSL_LOCKS_EXCLUDED(pages_mutex_);

  const std::shared_ptr<SessionRegion> region_;  // first: outlives the pages
  const std::string key_;
  const uint64_t key_hash_;
  const SessionRegion::Slot slot_;
  mutable absl::Mutex pages_mutex_;  // a parent may grow while a child copies its pages
  std::vector<Extent> pages_ ABSL_GUARDED_BY(pages_mutex_);
  std::atomic<int64_t> capacity_slots_ = 0;
  std::atomic<uint64_t> state_bytes_ = 0;
  StepState step_state_;
};

}  // namespace spin::server

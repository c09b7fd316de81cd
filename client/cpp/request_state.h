// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "dataplane/progress.h"
#include "dataplane/request_key.h"
#include "spin/session.h"

namespace spin::internal {

// What a request has at spind: valid for one life of the session only.
struct RequestBinding {
  uint64_t session_id = 0;  // 0: nothing
  uint32_t index = 0;
  uint32_t generation = 0;
  int64_t capacity_slots = 0;

  bool SameAs(const RequestBinding& other) const {
    return session_id == other.session_id && index == other.index && generation == other.generation;
  }
};

// What the decode loop knows of a request's history. Belongs to the binding it was made under.
struct RequestHistory {
  RequestBinding binding;
  RequestBinding reopening;  // it is to be opened anew: nothing is observed under this one
  dataplane::Progress progress;
  bool has_list = false;  // a list was asked for the step at `list_position`
  int64_t list_position = 0;
  uint32_t list_next_n = 0;
  uint32_t buffer = 0;  // which of the two list buffers holds it
  bool audit = false;   // that step is an audit
  bool gap = false;     // steps went unobserved: the next one may jump
  Reason why_no_list = Reason::kCold;
};

// A request of the engine, shared by its handle, the step that names it and (weakly) the link. When
// the last holder lets go, spind is told to close it.
class RequestState {
 public:
  using OnGone = std::function<void(const std::string& key, const RequestBinding& binding)>;

  RequestState(std::string key, int64_t slots, OnGone on_gone)
      : key_(std::move(key)),
        key_hash_(dataplane::HashRequestKey(key_)),
        on_gone_(std::move(on_gone)),
        wanted_slots_(slots) {}
  ~RequestState() { on_gone_(key_, binding()); }

  const std::string& key() const { return key_; }
  uint64_t key_hash() const { return key_hash_; }

  RequestBinding binding() const {
    absl::MutexLock lock(&mutex_);
    return binding_;
  }
  absl::Status status() const {
    absl::MutexLock lock(&mutex_);
    return status_;
  }
  int64_t wanted_slots() const {
    absl::MutexLock lock(&mutex_);
    return wanted_slots_;
  }
  void Want(int64_t slots) {
    absl::MutexLock lock(&mutex_);
    if (slots > wanted_slots_) wanted_slots_ = slots;
  }

  // Opened or grown at spind.
  void Bind(const RequestBinding& binding) {
    absl::MutexLock lock(&mutex_);
    binding_ = binding;
    status_ = absl::OkStatus();
  }
  // Refused by spind. A binding, if there is one, stays: a request that could not grow still is
  // open.
  void Refused(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    status_ = std::move(status);
  }
  void Unbind(absl::Status why) {
    absl::MutexLock lock(&mutex_);
    binding_ = {};
    status_ = std::move(why);
  }

  // The decode loop's own; no lock.
  RequestHistory& history() { return history_; }

 private:
  const std::string key_;
  const uint64_t key_hash_;
  const OnGone on_gone_;
  mutable absl::Mutex mutex_;
  RequestBinding binding_ ABSL_GUARDED_BY(mutex_);
  int64_t wanted_slots_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_) = absl::UnavailableError("not opened yet");
  RequestHistory history_;
};

}  // namespace spin::internal

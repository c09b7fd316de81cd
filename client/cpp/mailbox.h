// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/request_state.h"

namespace spin::internal {

// What the link's thread waits for: chores from the decode loop, closed requests, the end of the
// stream or of the link. Outlives the link where a request does. Thread-safe; posting never blocks.
class Mailbox {
 public:
  enum class Chore { kExtend, kReopen };
  using Chores = std::vector<std::pair<Chore, std::shared_ptr<RequestState>>>;
  // What is left of a request whose last holder is gone.
  struct Closed {
    std::string key;
    RequestBinding binding;  // generation 0: only the key is known
  };

  void Post(Chore chore, std::shared_ptr<RequestState> request) {
    absl::MutexLock lock(&mutex_);
    chores_.emplace_back(chore, std::move(request));
  }
  void PostClosed(Closed closed) {
    absl::MutexLock lock(&mutex_);
    closed_.push_back(std::move(closed));
  }
  void PostStreamEnd() {
    absl::MutexLock lock(&mutex_);
    stream_ended_ = true;
  }
  void PostStop() {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }

  // A new stream begins.
  void ClearStreamEnd() {
    absl::MutexLock lock(&mutex_);
    stream_ended_ = false;
  }

  Chores TakeChores() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(chores_, {});
  }
  std::vector<Closed> TakeClosed() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(closed_, {});
  }
  bool stopping() const {
    absl::MutexLock lock(&mutex_);
    return stopping_;
  }

  // Waits for anything but the time to pass; false if the stream or the link is over.
  bool WaitForWork(absl::Duration at_most) {
    absl::MutexLock lock(&mutex_);
    const auto work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return stopping_ || stream_ended_ || !chores_.empty() || !closed_.empty();
    };
    mutex_.AwaitWithTimeout(absl::Condition(&work), at_most);
    return !stopping_ && !stream_ended_;
  }

  // Waits for the link's end; false if the time passed first.
  bool WaitForStop(absl::Duration at_most) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&stopping_), at_most);
  }

 private:
  mutable absl::Mutex mutex_;
  Chores chores_ ABSL_GUARDED_BY(mutex_);
  std::vector<Closed> closed_ ABSL_GUARDED_BY(mutex_);
  bool stream_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace spin::internal

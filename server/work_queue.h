// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

// A bounded queue in front of one thread. rpc handlers validate, enqueue and return; the thread
// owns what must not be touched by two (a device's stream, the order of steps).
namespace spin::server {

class WorkQueue {
 public:
  // `name` shows in thread listings (15 characters at most).
  WorkQueue(std::string name, size_t capacity);

  // Runs what is still queued, then ends the thread.
  ~WorkQueue();

  // False, and the work is dropped, if the queue is full or stopping.
  [[nodiscard]] bool TryPush(absl::AnyInvocable<void()> work);

  // Takes no more work, runs what is queued, ends the thread. Idempotent.
  void Stop();

  size_t depth() const;

  // Whether the thread has been at one piece of work for longer than `limit`.
  bool StuckFor(absl::Duration limit) const;

 private:
  void Run();

  const std::string name_;
  const size_t capacity_;
  mutable absl::Mutex mutex_;
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  absl::Time busy_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace spin::server

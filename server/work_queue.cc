// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/work_queue.h"

#include <pthread.h>

#include <utility>

#include "absl/time/clock.h"

namespace spin::server {

WorkQueue::WorkQueue(std::string name, size_t capacity)
    : name_(std::move(name)), capacity_(capacity), thread_([this] { Run(); }) {}

WorkQueue::~WorkQueue() { Stop(); }

bool WorkQueue::TryPush(absl::AnyInvocable<void()> work) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || queue_.size() >= capacity_) return false;
  queue_.push_back(std::move(work));
  return true;
}

void WorkQueue::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

bool WorkQueue::StuckFor(absl::Duration limit) const {
  absl::MutexLock lock(&mutex_);
  return absl::Now() - busy_since_ > limit;
}

size_t WorkQueue::depth() const {
  absl::MutexLock lock(&mutex_);
  return queue_.size();
}

void WorkQueue::Run() {
  pthread_setname_np(pthread_self(), name_.c_str());
  for (;;) {
    absl::AnyInvocable<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !queue_.empty();
      };
      mutex_.Await(absl::Condition(&ready));
      if (queue_.empty()) return;
      busy_since_ = absl::Now();
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
    work = nullptr;  // what it held goes before the queue counts as idle
    absl::MutexLock lock(&mutex_);
    busy_since_ = absl::InfiniteFuture();
  }
}

}  // namespace spin::server

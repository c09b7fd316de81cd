// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/quarantine.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace spin::server {

Quarantine::Quarantine(absl::Duration bound) : bound_(bound), thread_([this] { Run(); }) {}

Quarantine::~Quarantine() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void Quarantine::Hold(pid_t pid, std::shared_ptr<Session> session) {
  absl::MutexLock lock(&mutex_);
  held_.push_back({pid, absl::Now() + bound_, std::move(session)});
  changed_ = true;
}

template <typename Due>
void Quarantine::Release(Due due) {
  std::vector<Held> released;  // destroyed after the lock: freeing is not free
  absl::MutexLock lock(&mutex_);
  const auto keep =
      std::partition(held_.begin(), held_.end(), [&due](const Held& held) { return !due(held); });
  std::move(keep, held_.end(), std::back_inserter(released));
  held_.erase(keep, held_.end());
}

void Quarantine::ReleaseProcess(pid_t pid) {
  Release([pid](const Held& held) { return held.pid == pid; });
}

uint64_t Quarantine::bytes() const {
  absl::ReaderMutexLock lock(&mutex_);
  uint64_t bytes = 0;
  for (const Held& held : held_) bytes += held.session->state_bytes();
  return bytes;
}

absl::Time Quarantine::NextRelease() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Held& held : held_) next = std::min(next, held.until);
  return next;
}

void Quarantine::Run() {
  pthread_setname_np(pthread_self(), "quarantine");
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      const auto wake = [this]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || changed_; };
      mutex_.AwaitWithDeadline(absl::Condition(&wake), NextRelease());
      if (stopping_) return;
      changed_ = false;
    }
    const absl::Time now = absl::Now();
    Release([now](const Held& held) { return held.until <= now; });
  }
}

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/session.h"

// Sessions whose stream broke while their process may still be alive, and with it kernels that
// write into their pages. Their memory is handed out again when the process has exited, or after a
// bound: a client that lives has stopped by then.
namespace spin::server {

class Quarantine {
 public:
  explicit Quarantine(absl::Duration bound);
  ~Quarantine();

  // Keeps the session's memory; `pid` is 0 if the process cannot be seen.
  void Hold(pid_t pid, std::shared_ptr<Session> session);

  // Lets go of all that was held for this process.
  void ReleaseProcess(pid_t pid);

  // Bytes of the slab that are held.
  uint64_t bytes() const;

 private:
  struct Held {
    pid_t pid;
    absl::Time until;
    std::shared_ptr<Session> session;
  };
  void Run();
  absl::Time NextRelease() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  template <typename Due>
  void Release(Due due) ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration bound_;
  mutable absl::Mutex mutex_;
  std::vector<Held> held_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <grpcpp/client_context.h>

#include <atomic>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace spin::cli {

// Waits, on a thread of its own, for `q` or an interrupt, and then cancels the call that is under
// way.
class QuitWatch {
 public:
  // `keys`: whether stdin is a terminal that delivers single keys (see Screen).
  explicit QuitWatch(bool keys);
  ~QuitWatch();

  bool quit() const { return quit_; }

  // The call to cancel; null when it is over. Cancels at once if it is time to quit.
  void Guard(grpc::ClientContext* context);

  // Returns early when it is time to quit.
  void Sleep(absl::Duration duration);

 private:
  void Run();
  void Quit();
  bool ReadQuitKey();

  int stop_fd_;
  bool keys_;
  std::atomic<bool> quit_ = false;
  absl::Mutex mutex_;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace spin::cli

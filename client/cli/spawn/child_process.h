// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace spin::cli {

// A program that runs as long as we do, at most. In a process group of its own, so that Ctrl-C
// reaches only us; the kernel sends it SIGTERM should we die without a chance to. Its stdout is
// dropped, its stderr kept. Not thread-safe.
class ChildProcess {
 public:
  // argv[0] is the path of the program; it inherits no variable whose name starts with `unset`.
  // Start it from the main thread: the kernel's signal is bound to the life of the starting thread.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const std::vector<std::string>& argv,
                                                             const std::string& unset);
  ~ChildProcess();  // Stop()
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool Running();

  // SIGTERM, and SIGKILL if it still runs after kStopTimeout. Returns when it is gone.
  void Stop();
  static constexpr absl::Duration kStopTimeout = absl::Seconds(5);

  // All it has written to stderr so far.
  std::string Log() const;

 private:
  explicit ChildProcess(int log_fd) : log_fd_(log_fd) {}
  bool WaitUntilGone(absl::Duration timeout);

  pid_t pid_ = -1;  // -1 once it is gone
  int log_fd_;
};

}  // namespace spin::cli

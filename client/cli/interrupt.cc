// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace spin::cli {
namespace {

volatile std::sig_atomic_t interrupt_signal = 0;
int interrupt_pipe[2] = {-1, -1};

// Only what is safe in a signal handler.
void OnSignal(int signal) {
  const int saved_errno = errno;
  interrupt_signal = signal;
  [[maybe_unused]] const ssize_t written = write(interrupt_pipe[1], "!", 1);
  errno = saved_errno;
}

}  // namespace

void CatchInterrupts() {
  std::signal(SIGPIPE, SIG_IGN);
  if (pipe2(interrupt_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return;  // then signals kill, as usual
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

int InterruptSignal() { return interrupt_signal; }

absl::Status CheckInterrupt() {
  return interrupt_signal == 0 ? absl::OkStatus() : absl::CancelledError("interrupted");
}

int InterruptFd() { return interrupt_pipe[0]; }

void SleepUnlessInterrupted(absl::Duration duration) {
  pollfd interrupted = {InterruptFd(), POLLIN, 0};
  poll(&interrupted, 1, static_cast<int>(absl::ToInt64Milliseconds(duration)));
}

}  // namespace spin::cli

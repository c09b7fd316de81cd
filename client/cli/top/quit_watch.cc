// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/top/quit_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cctype>
#include <utility>

#include "client/cli/interrupt.h"

namespace spin::cli {

QuitWatch::QuitWatch(bool keys)
    : stop_fd_(eventfd(0, EFD_CLOEXEC)), keys_(keys), thread_([this] { Run(); }) {}

QuitWatch::~QuitWatch() {
  eventfd_write(stop_fd_, 1);
  thread_.join();
  close(stop_fd_);
}

void QuitWatch::Run() {
  for (;;) {
    pollfd fds[] = {
        {stop_fd_, POLLIN, 0}, {InterruptFd(), POLLIN, 0}, {keys_ ? STDIN_FILENO : -1, POLLIN, 0}};
    if (poll(fds, 3, -1) < 0) continue;  // EINTR
    if (fds[0].revents != 0) return;
    if (fds[1].revents != 0 || (fds[2].revents != 0 && ReadQuitKey())) return Quit();
  }
}

bool QuitWatch::ReadQuitKey() {
  char key = 0;
  const ssize_t count = read(STDIN_FILENO, &key, 1);
  return count <= 0 || std::tolower(key) == 'q';  // a terminal that went away ends it too
}

void QuitWatch::Quit() {
  absl::MutexLock lock(&mutex_);
  quit_ = true;
  if (context_ != nullptr) context_->TryCancel();
}

void QuitWatch::Guard(grpc::ClientContext* context) {
  absl::MutexLock lock(&mutex_);
  context_ = context;
  if (quit_ && context_ != nullptr) context_->TryCancel();
}

void QuitWatch::Sleep(absl::Duration duration) {
  absl::MutexLock lock(&mutex_);
  const auto is_quit = [](std::atomic<bool>* quit) { return quit->load(); };
  mutex_.AwaitWithTimeout(absl::Condition(+is_quit, &quit_), duration);
}

}  // namespace spin::cli

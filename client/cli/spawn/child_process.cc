// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/spawn/child_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace spin::cli {
namespace {

constexpr absl::Duration kPollEvery = absl::Milliseconds(2);

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentWithout(const std::string& prefix) {
  std::vector<std::string> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!absl::StartsWith(*variable, prefix)) kept.emplace_back(*variable);
  }
  return kept;
}

// In the child: only what is safe between fork and exec. Tells `error_fd` why it failed; a success
// closes that.
[[noreturn]] void Exec(char* const* argv, char* const* environment, int log_fd, int error_fd,
                       pid_t parent) {
  setpgid(0, 0);
  std::signal(SIGPIPE, SIG_DFL);
  const int null_fd = open("/dev/null", O_RDWR);
  const bool ready = prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && dup2(null_fd, STDIN_FILENO) >= 0 &&
                     dup2(null_fd, STDOUT_FILENO) >= 0 && dup2(log_fd, STDERR_FILENO) >= 0;
  if (getppid() != parent) _exit(1);  // it died before the kernel was told
  if (ready) execve(argv[0], argv, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(error_fd, &error, sizeof(error));
  _exit(127);
}

// The errno with which Exec failed, 0 if it did not.
int ReadExecError(int fd) {
  int error = 0;
  ssize_t count;
  do {
    count = read(fd, &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  return count == sizeof(error) ? error : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& argv, const std::string& unset) {
  const std::vector<std::string> environment = EnvironmentWithout(unset);
  const std::vector<char*> words = Pointers(argv), variables = Pointers(environment);
  std::unique_ptr<ChildProcess> child(new ChildProcess(memfd_create("spinctl-log", MFD_CLOEXEC)));
  int error_pipe[2];
  if (child->log_fd_ < 0 || pipe2(error_pipe, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "cannot prepare a process");
  }
  const auto close_read = absl::MakeCleanup([fd = error_pipe[0]] { close(fd); });
  auto close_write = absl::MakeCleanup([fd = error_pipe[1]] { close(fd); });
  const pid_t parent = getpid();
  child->pid_ = fork();
  if (child->pid_ < 0) return absl::ErrnoToStatus(errno, "cannot start a process");
  if (child->pid_ == 0) {
    Exec(words.data(), variables.data(), child->log_fd_, error_pipe[1], parent);
  }
  std::move(close_write).Invoke();
  if (const int error = ReadExecError(error_pipe[0]); error != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot start ", argv[0], ": ", std::strerror(error)));
  }
  return child;
}

ChildProcess::~ChildProcess() {
  Stop();
  if (log_fd_ >= 0) close(log_fd_);
}

bool ChildProcess::Running() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) != 0) pid_ = -1;
  return pid_ > 0;
}

bool ChildProcess::WaitUntilGone(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (Running() && absl::Now() < deadline) absl::SleepFor(kPollEvery);
  return !Running();
}

void ChildProcess::Stop() {
  if (!Running()) return;
  kill(pid_, SIGTERM);
  if (WaitUntilGone(kStopTimeout)) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

std::string ChildProcess::Log() const {
  struct stat info = {};
  if (fstat(log_fd_, &info) != 0) return "";
  std::string log(static_cast<size_t>(info.st_size), '\0');
  const ssize_t count = pread(log_fd_, log.data(), log.size(), 0);
  log.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return log;
}

}  // namespace spin::cli

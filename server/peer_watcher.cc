// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/peer_watcher.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace spin::server {
namespace {

// epoll's 64 bits of user data: a tag in the top two, a connection or pid below.
enum : uint64_t {
  kStopTag = 0,
  kConnectionTag = uint64_t{1} << 62,
  kProcessTag = uint64_t{2} << 62
};
constexpr uint64_t kTagMask = uint64_t{3} << 62;

void Watch(int epoll_fd, int fd, uint32_t events, uint64_t data) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = data;
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerWatcher>> PeerWatcher::Create(Callbacks callbacks) {
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  const int stop_fd = eventfd(0, EFD_CLOEXEC);
  if (epoll_fd < 0 || stop_fd < 0) return absl::ErrnoToStatus(errno, "cannot watch peers");
  Watch(epoll_fd, stop_fd, EPOLLIN, kStopTag);
  return std::unique_ptr<PeerWatcher>(new PeerWatcher(std::move(callbacks), epoll_fd, stop_fd));
}

PeerWatcher::PeerWatcher(Callbacks callbacks, int epoll_fd, int stop_fd)
    : callbacks_(std::move(callbacks)),
      epoll_fd_(epoll_fd),
      stop_fd_(stop_fd),
      thread_([this] { Run(); }) {}

PeerWatcher::~PeerWatcher() {
  eventfd_write(stop_fd_, 1);
  thread_.join();
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, connection] : connections_) close(connection.watch_fd);
  for (const auto& [pid, fd] : pidfds_) close(fd);
  close(stop_fd_);
  close(epoll_fd_);
}

Peer PeerWatcher::Add(int fd, pid_t pid, uid_t uid) {
  const int watch_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (watch_fd < 0) return {0, pid, uid};
  absl::MutexLock lock(&mutex_);
  const Peer peer = {++last_connection_, pid, uid};
  connections_[peer.connection] = {peer, fd, watch_fd};
  by_grpc_fd_[fd] = peer.connection;
  WatchProcess(pid);
  Watch(epoll_fd_, watch_fd, EPOLLRDHUP, kConnectionTag | peer.connection);
  return peer;
}

void PeerWatcher::WatchProcess(pid_t pid) {
  if (pid <= 0 || pidfds_.contains(pid)) return;
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return;  // it is gone already, and its connection with it
  pidfds_[pid] = fd;
  Watch(epoll_fd_, fd, EPOLLIN, kProcessTag | static_cast<uint64_t>(pid));
}

std::optional<Peer> PeerWatcher::Find(const std::string& grpc_peer) const {
  absl::string_view number = grpc_peer;
  int fd = 0;
  if (!absl::ConsumePrefix(&number, "fd:") || !absl::SimpleAtoi(number, &fd)) return std::nullopt;
  absl::ReaderMutexLock lock(&mutex_);
  const auto it = by_grpc_fd_.find(fd);
  if (it == by_grpc_fd_.end()) return std::nullopt;
  return connections_.at(it->second).peer;
}

size_t PeerWatcher::connections() const {
  absl::ReaderMutexLock lock(&mutex_);
  return connections_.size();
}

void PeerWatcher::Run() {
  pthread_setname_np(pthread_self(), "peer-watcher");
  for (;;) {
    epoll_event event = {};
    if (epoll_wait(epoll_fd_, &event, 1, -1) < 1) continue;  // EINTR
    const uint64_t value = event.data.u64 & ~kTagMask;
    switch (event.data.u64 & kTagMask) {
      case kConnectionTag:
        OnHangup(value);
        break;
      case kProcessTag:
        OnExit(static_cast<pid_t>(value));
        break;
      default:
        return;
    }
  }
}

void PeerWatcher::OnHangup(uint64_t connection) {
  {
    absl::MutexLock lock(&mutex_);
    const auto it = connections_.find(connection);
    if (it == connections_.end()) return;
    // To close it would not do: gRPC may have the connection open for a while yet.
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, it->second.watch_fd, nullptr);
    close(it->second.watch_fd);
    const auto by_fd = by_grpc_fd_.find(it->second.grpc_fd);
    if (by_fd != by_grpc_fd_.end() && by_fd->second == connection) by_grpc_fd_.erase(by_fd);
    connections_.erase(it);
  }
  callbacks_.on_hangup(connection);
}

void PeerWatcher::OnExit(pid_t pid) {
  {
    absl::MutexLock lock(&mutex_);
    const auto it = pidfds_.find(pid);
    if (it == pidfds_.end()) return;
    close(it->second);
    pidfds_.erase(it);
  }
  callbacks_.on_exit(pid);
}

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/peer.h"

// Knows who is behind each connection, and notices at once when a connection or a process ends. The
// process decides: a forked child that inherited the socket keeps the connection open, but not its
// dead parent's sessions.
namespace spin::server {

class PeerWatcher {
 public:
  struct Callbacks {
    std::function<void(uint64_t connection)> on_hangup;
    std::function<void(pid_t pid)> on_exit;
  };
  // Callbacks come from the watcher's own thread, one at a time.
  static absl::StatusOr<std::unique_ptr<PeerWatcher>> Create(Callbacks callbacks);
  ~PeerWatcher();

  // Registers a freshly accepted socket and returns its peer; connection 0 if there is no
  // descriptor left to watch it with. The socket stays the caller's.
  Peer Add(int fd, pid_t pid, uid_t uid);

  // The peer of a call, from what gRPC calls its peer ("fd:17"). Nothing if the connection is gone.
  std::optional<Peer> Find(const std::string& grpc_peer) const;

  size_t connections() const;

  // Connections that were refused before they had a peer.
  void CountRejected() { rejected_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t rejected() const { return rejected_.load(std::memory_order_relaxed); }

 private:
  PeerWatcher(Callbacks callbacks, int epoll_fd, int stop_fd);
  void Run();
  void OnHangup(uint64_t connection);
  void OnExit(pid_t pid);
  void WatchProcess(pid_t pid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  struct Connection {
    Peer peer;
    int grpc_fd;   // number under which gRPC knows it; reused after close
    int watch_fd;  // our duplicate, which only listens for the hang-up
  };

  const Callbacks callbacks_;
  const int epoll_fd_;
  const int stop_fd_;
  std::atomic<uint64_t> rejected_ = 0;
  mutable absl::Mutex mutex_;
  uint64_t last_connection_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int, uint64_t> by_grpc_fd_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<pid_t, int> pidfds_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace spin::server

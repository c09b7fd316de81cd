// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <grpcpp/server.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/peer_watcher.h"

// The unix socket of spind. gRPC tells a server nothing about the user behind a unix socket, so
// spind accepts itself, asks the kernel (SO_PEERCRED), checks the allow-list and hands the
// descriptor over.
namespace spin::server {

// The right to serve on a socket path: a lock on PATH.lock, held as long as this lives. Without it
// a second server would silently take the path over, and remove it when it ends.
class SocketLock {
 public:
  // FAILED_PRECONDITION if another spind has it.
  static absl::StatusOr<SocketLock> Take(const std::string& socket_path);
  SocketLock(SocketLock&& other) noexcept;
  ~SocketLock();

 private:
  explicit SocketLock(int fd) : fd_(fd) {}
  int fd_;
};

class Listener {
 public:
  // Binds the path (mode 0660 whatever the umask) and starts to accept. The lock must be held by
  // the caller, who owns `server` and `peers` for longer than this.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(const std::string& socket_path,
                                                         std::vector<uid_t> allowed_users,
                                                         grpc::Server* server, PeerWatcher* peers);

  // Stops accepting and removes the socket.
  ~Listener();

 private:
  Listener(int listen_fd, int stop_fd, std::string socket_path, std::vector<uid_t> allowed_users,
           grpc::Server* server, PeerWatcher* peers);
  void Run();
  void AcceptOne();

  const int listen_fd_;
  const int stop_fd_;
  const std::string socket_path_;
  const std::vector<uid_t> allowed_users_;
  grpc::Server* const server_;
  PeerWatcher* const peers_;
  std::thread thread_;
};

}  // namespace spin::server

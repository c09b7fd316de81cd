// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/listener.h"

#include <fcntl.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace spin::server {
namespace {

constexpr int kBacklog = 128;

absl::Status SocketError(absl::string_view doing, const std::string& path) {
  const int error = errno;
  absl::Status status = absl::ErrnoToStatus(error, absl::StrCat("cannot ", doing, " ", path));
  if (error == ENOENT) {
    return absl::NotFoundError(absl::StrCat(status.message(), "; create its folder first"));
  }
  return status;
}

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--socket: the path has ", path.size(), " characters, but a unix socket takes 1 to ",
        sizeof address.sun_path - 1, "; choose a shorter one"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::StatusOr<int> BindAndListen(const std::string& path) {
  const auto address = AddressOf(path);
  if (!address.ok()) return address.status();
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return SocketError("create a socket for", path);
  auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  struct stat info = {};
  if (lstat(path.c_str(), &info) == 0 && !S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("--socket: ", path, " exists and is not a socket; choose another path"));
  }
  unlink(path.c_str());  // a predecessor's; the lock says that none is alive
  if (bind(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return SocketError("bind socket", path);
  }
  // Nobody can connect before listen(), so the mode is never wider than this.
  if (chmod(path.c_str(), 0660) != 0) return SocketError("set the mode of socket", path);
  if (listen(fd, kBacklog) != 0) return SocketError("listen on socket", path);
  std::move(close_fd).Cancel();
  return fd;
}

}  // namespace

absl::StatusOr<SocketLock> SocketLock::Take(const std::string& socket_path) {
  const auto address = AddressOf(socket_path);
  if (!address.ok()) return address.status();
  const std::string path = socket_path + ".lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0660);
  if (fd < 0) return SocketError("open lock file", path);
  SocketLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("another spind serves ", socket_path,
                     "; stop it first, or choose another path with --socket"));
  }
  return lock;
}

SocketLock::SocketLock(SocketLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

SocketLock::~SocketLock() {
  // The file stays, after a failed start, too: to remove it would let two servers lock two files of
  // one name, the one that has opened it before and the one that makes it anew.
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(const std::string& socket_path,
                                                          std::vector<uid_t> allowed_users,
                                                          grpc::Server* server,
                                                          PeerWatcher* peers) {
  const auto listen_fd = BindAndListen(socket_path);
  if (!listen_fd.ok()) return listen_fd.status();
  const int stop_fd = eventfd(0, EFD_CLOEXEC);
  return std::unique_ptr<Listener>(
      new Listener(*listen_fd, stop_fd, socket_path, std::move(allowed_users), server, peers));
}

Listener::Listener(int listen_fd, int stop_fd, std::string socket_path,
                   std::vector<uid_t> allowed_users, grpc::Server* server, PeerWatcher* peers)
    : listen_fd_(listen_fd),
      stop_fd_(stop_fd),
      socket_path_(std::move(socket_path)),
      allowed_users_(std::move(allowed_users)),
      server_(server),
      peers_(peers),
      thread_([this] { Run(); }) {}

Listener::~Listener() {
  eventfd_write(stop_fd_, 1);
  thread_.join();
  unlink(socket_path_.c_str());
  close(listen_fd_);
  close(stop_fd_);
}

void Listener::Run() {
  pthread_setname_np(pthread_self(), "listener");
  for (;;) {
    pollfd fds[] = {{listen_fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;  // EINTR
    if (fds[1].revents != 0) return;
    AcceptOne();
  }
}

void Listener::AcceptOne() {
  const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    // Out of descriptors: the connection stays in the backlog, so do not spin on it.
    if (errno == EMFILE || errno == ENFILE) poll(nullptr, 0, 10);
    return;
  }
  ucred credentials = {};
  socklen_t size = sizeof credentials;
  const bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0;
  const bool allowed = known && std::find(allowed_users_.begin(), allowed_users_.end(),
                                          credentials.uid) != allowed_users_.end();
  if (!allowed) {
    peers_->CountRejected();
    spdlog::warn("refused a connection of user {} (pid {}): not in --allow-uids", credentials.uid,
                 credentials.pid);
    close(fd);
    return;
  }
  // An end that nobody would notice is worse than no connection.
  if (peers_->Add(fd, credentials.pid, credentials.uid).connection == 0) {
    close(fd);
    return;
  }
  grpc::AddInsecureChannelFromFd(server_, fd);
}

}  // namespace spin::server

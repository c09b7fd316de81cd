// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/socket_probe.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "spin/options.h"

namespace spin::cli {
namespace {

constexpr int kSettingsTimeoutMs = 1000;

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// The errno of connecting `fd`, 0 if that went well.
int Connect(int fd, const std::string& path) {
  const sockaddr_un address = AddressOf(path);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  return connect(fd, generic, sizeof(address)) == 0 ? 0 : errno;
}

absl::Status ConnectError(int error, const std::string& path) {
  switch (error) {
    case 0:
      return absl::OkStatus();
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(absl::StrCat(
          "no spind at ", path, ": start one, or name its socket with --socket or $SPIN_SOCKET"));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(
          absl::StrCat("no permission to open ", path, " as user ", geteuid(),
                       ": run as the user or in the group of spind (the socket has mode 0660)"));
    case ECONNREFUSED:
      return absl::UnavailableError(absl::StrCat(
          "nobody listens on ", path, ": spind has ended without removing it; start it again"));
    default:
      return absl::UnavailableError(
          absl::StrCat("cannot connect to ", path, ": ", std::strerror(error)));
  }
}

absl::Status CheckIsSocket(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0 || S_ISSOCK(info.st_mode)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is not a socket: give the path that spind has as its --socket"));
}

}  // namespace

std::string SocketOrDefault(const std::string& flag) {
  if (!flag.empty()) return flag;
  const char* variable = std::getenv("SPIN_SOCKET");
  return variable != nullptr && *variable != '\0' ? variable : kDefaultSocket;
}

absl::Status CheckSocketPath(const std::string& path) {
  constexpr size_t kLongest = sizeof(sockaddr_un{}.sun_path) - 1;
  if (path.size() <= kLongest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--socket: the path has ", path.size(),
                                                 " bytes, a unix socket takes at most ", kLongest));
}

absl::Status ProbeSocket(const std::string& path) {
  if (absl::Status status = CheckSocketPath(path); !status.ok()) return status;
  if (absl::Status status = CheckIsSocket(path); !status.ok()) return status;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot create a socket");
  const auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  return ConnectError(Connect(fd, path), path);
}

bool ClosesAtOnce(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  if (!CheckSocketPath(path).ok() || Connect(fd, path) != 0) return false;
  // A gRPC server speaks first: its HTTP/2 settings.
  pollfd readable = {fd, POLLIN, 0};
  if (poll(&readable, 1, kSettingsTimeoutMs) <= 0) return false;
  char byte = 0;
  return recv(fd, &byte, 1, 0) <= 0;
}

}  // namespace spin::cli

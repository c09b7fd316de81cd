// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/doctor/http_get.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace spin::cli {
namespace {

struct HostPort {
  std::string host, port;
};

// "127.0.0.1:80", "[::1]:80". An unspecified address is reached over the loopback.
HostPort Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostPort split = {address.substr(0, colon),
                    colon == std::string::npos ? "" : address.substr(colon + 1)};
  if (split.host.size() > 2 && split.host.front() == '[') {
    split.host = split.host.substr(1, split.host.size() - 2);
  }
  if (split.host == "0.0.0.0" || split.host.empty()) split.host = "127.0.0.1";
  if (split.host == "::") split.host = "::1";
  return split;
}

// A connected socket.
absl::StatusOr<int> Connect(const std::string& address) {
  const HostPort target = Split(address);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(target.host.c_str(), target.port.c_str(), &hints, &found);
      error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot resolve ", address, ": ", gai_strerror(error)));
  }
  const auto free_found = absl::MakeCleanup([found] { freeaddrinfo(found); });
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot create a socket");
  const timeval timeout = {2, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));  // connect(2) heeds it too
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  if (connect(fd, found->ai_addr, found->ai_addrlen) == 0) return fd;
  const int error = errno;
  close(fd);
  return absl::ErrnoToStatus(error, absl::StrCat("cannot connect to ", address));
}

}  // namespace

absl::StatusOr<int> HttpGet(const std::string& address, const std::string& path) {
  const absl::StatusOr<int> fd = Connect(address);
  if (!fd.ok()) return fd.status();
  const auto close_fd = absl::MakeCleanup([fd = *fd] { close(fd); });
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: ", address, "\r\nConnection: close\r\n\r\n");
  if (send(*fd, request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot send to ", address));
  }
  char line[32] = {};  // "HTTP/1.1 200 OK"
  const ssize_t count = recv(*fd, line, sizeof(line) - 1, 0);
  const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
  int code = 0;
  if (count > 0 && words.size() >= 2 && absl::SimpleAtoi(words[1], &code)) return code;
  return absl::UnavailableError(absl::StrCat(address, " does not answer as an HTTP server"));
}

}  // namespace spin::cli

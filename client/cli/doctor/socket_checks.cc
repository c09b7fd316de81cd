// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/doctor/check.h"
#include "client/cli/socket_probe.h"

namespace spin::cli {
namespace {

Check PathCheck(const std::string& path) {
  const absl::Status status = CheckSocketPath(path);
  if (status.ok()) return {"socket path", Outcome::kOk, path, ""};
  return {"socket path", Outcome::kFail, std::string(status.message()),
          "give spind and its clients a shorter --socket"};
}

Check FileCheck(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    const bool hidden = errno == EACCES;
    return {
        "socket file", Outcome::kFail,
        hidden ? absl::StrCat(path, " is in a folder we may not enter")
               : absl::StrCat("nothing at ", path),
        hidden ? "run as the user or in the group of spind"
               : "start spind, or name its socket with --socket or $SPIN_SOCKET; in a pod, look at "
                 "the log of spind for \"not serving\", and mount the folder into both containers"};
  }
  if (!S_ISSOCK(info.st_mode)) {
    return {"socket file", Outcome::kFail, absl::StrCat(path, " is not a socket"),
            "give the path that spind has as its --socket"};
  }
  return {"socket file", Outcome::kOk,
          absl::StrFormat("mode %04o, user %d, group %d", info.st_mode & 07777u, info.st_uid,
                          info.st_gid),
          ""};
}

Check ListenerCheck(const std::string& path) {
  const absl::Status status = ProbeSocket(path);
  if (status.ok()) return {"listener", Outcome::kOk, "a server accepts connections", ""};
  const std::string advice =
      absl::IsPermissionDenied(status)
          ? "in a pod: give both containers one group (fsGroup), or run the engine as spind's user"
          : "look at the log of spind";
  return {"listener", Outcome::kFail, std::string(status.message()), advice};
}

// Only where nobody listens: taking the lock, if but for a moment, could stop a spind that starts.
Check LockCheck(const std::string& path, bool listening) {
  const std::string lock_path = absl::StrCat(path, ".lock");
  const int fd = open(lock_path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT && !listening) {
    return {"lock file", Outcome::kInfo, "none: no spind has served here", ""};
  }
  if (fd < 0) return {"lock file", Outcome::kInfo, "not visible to us", ""};
  const auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  if (listening) return {"lock file", Outcome::kOk, lock_path, ""};
  if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
    return {"lock file", Outcome::kInfo, "free: no spind runs on this path", ""};
  }
  return {"lock file", Outcome::kFail, "held: a spind runs, but its socket cannot be reached",
          "somebody removed or replaced the socket, or it is still starting; restart that spind"};
}

Check UserCheck(const std::string& path) {
  if (!ClosesAtOnce(path)) {
    return {"allowed user", Outcome::kOk, absl::StrCat("user ", geteuid(), " is let in"), ""};
  }
  return {"allowed user", Outcome::kFail,
          absl::StrCat("the server closes connections of user ", geteuid(), " at once"),
          absl::StrCat("add ", geteuid(), " to --allow-uids of spind; in the chart, allowUids: [",
                       geteuid(), "]")};
}

}  // namespace

std::vector<Check> CheckSocket(const std::string& path) {
  std::vector<Check> checks = {PathCheck(path)};
  if (checks.back().outcome == Outcome::kFail) return checks;
  checks.push_back(FileCheck(path));
  const bool listening = checks.back().outcome == Outcome::kOk && ProbeSocket(path).ok();
  if (checks.back().outcome == Outcome::kOk) checks.push_back(ListenerCheck(path));
  checks.push_back(LockCheck(path, listening));
  if (listening) checks.push_back(UserCheck(path));
  return checks;
}

}  // namespace spin::cli

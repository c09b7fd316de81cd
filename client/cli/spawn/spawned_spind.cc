// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/spawn/spawned_spind.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/cli/health.h"
#include "client/cli/interrupt.h"
#include "client/cli/socket_probe.h"

namespace spin::cli {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(15);
constexpr absl::Duration kPollEvery = absl::Milliseconds(5);

// Settings of another spind on this machine are not meant for ours.
constexpr char kUnsetPrefix[] = "SPIND_";

std::string BesideOurselves() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "spind").string();
}

absl::StatusOr<std::string> FindBinary(const std::string& flag) {
  std::string binary = flag.empty() ? BesideOurselves() : flag;
  std::error_code error;
  const bool file = std::filesystem::is_regular_file(binary, error);
  if (file && access(binary.c_str(), X_OK) == 0) return binary;
  return absl::InvalidArgumentError(
      absl::StrCat("--spind: ", binary, " is not a program: build spind, name it with --spind, or ",
                   "use a running one with --socket"));
}

std::vector<std::string> CommandLine(const std::string& binary, const std::string& socket,
                                     const std::string& device, uint64_t slab_bytes) {
  return {binary,
          absl::StrCat("--socket=", socket),
          absl::StrCat("--device=", device),
          absl::StrCat("--slab-bytes=", slab_bytes),
          "--admin-address=127.0.0.1:0",
          "--log-level=warn"};
}

std::string LastLine(const std::string& log) {
  const std::vector<std::string> lines = absl::StrSplit(log, '\n', absl::SkipWhitespace());
  return lines.empty() ? "it said nothing" : lines.back();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SpawnedSpind>> SpawnedSpind::Start(const std::string& binary,
                                                                  const std::string& device,
                                                                  uint64_t slab_bytes) {
  absl::StatusOr<std::string> program = FindBinary(binary);
  if (!program.ok()) return program.status();
  absl::StatusOr<std::unique_ptr<PrivateDirectory>> directory = PrivateDirectory::Create();
  if (!directory.ok()) return directory.status();
  const std::string socket = absl::StrCat((*directory)->path(), "/spind.sock");
  absl::StatusOr<std::unique_ptr<ChildProcess>> child =
      ChildProcess::Start(CommandLine(*program, socket, device, slab_bytes), kUnsetPrefix);
  if (!child.ok()) return child.status();
  std::unique_ptr<SpawnedSpind> spind(
      new SpawnedSpind(*std::move(directory), *std::move(child), socket));
  if (absl::Status status = spind->WaitUntilServing(); !status.ok()) return status;
  return spind;
}

absl::Status SpawnedSpind::CheckServing() const {
  // gRPC backs off for a second from a socket that is not there yet; a look at it costs nothing.
  if (absl::Status status = ProbeSocket(socket()); !status.ok()) return status;
  return CheckHealth(connection_);
}

absl::Status SpawnedSpind::WaitUntilServing() {
  const absl::Time deadline = absl::Now() + kStartTimeout;
  for (;;) {
    if (absl::Status status = CheckInterrupt(); !status.ok()) return status;
    if (!child_->Running()) {
      return absl::FailedPreconditionError(absl::StrCat("spind did not start: ", LastLine(Log())));
    }
    absl::Status status = CheckServing();
    if (status.ok()) return status;
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("spind did not serve within ",
                                                      absl::FormatDuration(kStartTimeout), ": ",
                                                      status.message()));
    }
    SleepUnlessInterrupted(kPollEvery);
  }
}

}  // namespace spin::cli

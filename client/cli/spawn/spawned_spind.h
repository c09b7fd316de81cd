// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "client/cli/spawn/child_process.h"
#include "client/cli/spawn/private_directory.h"

namespace spin::cli {

// A spind of our own: a private directory for its socket, /metrics on a free port of
// the loopback. Ends with this object; no process and no file stays behind.
class SpawnedSpind {
 public:
  // Returns when it serves. `binary` empty: the spind beside our own executable.
  //   INVALID_ARGUMENT  no such program; the message says how to name one
  //   CANCELLED         interrupted while it started
  // and whatever else kept it from serving, with its own last words.
  static absl::StatusOr<std::unique_ptr<SpawnedSpind>> Start(const std::string& binary,
                                                             const std::string& device,
                                                             uint64_t slab_bytes);

  const std::string& socket() const { return connection_.socket(); }
  const Connection& connection() const { return connection_; }

  // What it has warned of so far; normally nothing.
  std::string Log() const { return child_->Log(); }

 private:
  SpawnedSpind(std::unique_ptr<PrivateDirectory> directory, std::unique_ptr<ChildProcess> child,
               const std::string& socket)
      : directory_(std::move(directory)), child_(std::move(child)), connection_(socket) {}
  absl::Status CheckServing() const;
  absl::Status WaitUntilServing();

  std::unique_ptr<PrivateDirectory> directory_;  // outlives the child
  std::unique_ptr<ChildProcess> child_;
  Connection connection_;
};

}  // namespace spin::cli

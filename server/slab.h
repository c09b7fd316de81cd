// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "dataplane/shared_memory.h"
#include "dataplane/slab_header.h"
#include "server/extents.h"
#include "spin/v1/session.pb.h"

// The one piece of shared memory that spind owns: made at start, before any engine, and never
// resized.
namespace spin::server {

class Slab {
 public:
  // Makes a slab of POSIX shared memory in `directory` with a fresh epoch, after removing what
  // killed predecessors left there. RESOURCE_EXHAUSTED if there is no room, even after a few
  // seconds.
  static absl::StatusOr<std::unique_ptr<Slab>> CreateInSharedMemory(const std::string& directory,
                                                                    uint64_t bytes);

  std::byte* data() const { return memory_.data(); }
  uint64_t bytes() const { return memory_.size(); }
  uint64_t epoch() const { return epoch_; }
  uint64_t nonce() const { return nonce_; }
  ExtentAllocator& extents() { return extents_; }

  // How a client maps it.
  v1::SlabHandle Handle() const;

 private:
  Slab(dataplane::SharedMemory memory, uint64_t epoch, uint64_t nonce);

  dataplane::SharedMemory memory_;
  const uint64_t epoch_;
  const uint64_t nonce_;
  ExtentAllocator extents_;  // everything after the header
};

// A random 64-bit number that is never 0: epochs, nonces, session ids.
uint64_t RandomId();

}  // namespace spin::server

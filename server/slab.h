// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/cuda_memory.h"
#include "dataplane/slab_memory.h"
#include "kernels/device.h"
#include "server/extents.h"
#include "spin/v1/session.pb.h"

// All memory of the device that spind owns: the slab, which clients map, and scratch memory, which
// they don't. Made at start, before any engine, and never resized.
namespace spin::server {

class Slab {
 public:
  // Makes a slab with a fresh epoch on `device`: in a file of POSIX shared memory in `directory`
  // (CPU), after removing what killed predecessors left there, or in device memory.
  // RESOURCE_EXHAUSTED if there is no room, even after a few seconds, or never within the memory
  // limit of the container. The device must outlive it.
  static absl::StatusOr<std::unique_ptr<Slab>> Create(kernels::Device* device,
                                                      const std::string& directory, uint64_t bytes);

  // Base addresses on the device. Host code goes through Write, Read and Zero.
  std::byte* data() const { return memory_->data(); }
  std::byte* scratch() const { return scratch_.get(); }

  uint64_t bytes() const { return memory_->size(); }
  uint64_t epoch() const { return epoch_; }
  uint64_t nonce() const { return nonce_; }
  kernels::Device& device() const { return *device_; }
  ExtentAllocator& extents() { return extents_; }
  ExtentAllocator& scratch_extents() { return scratch_extents_; }

  // For work on the slab outside of steps.
  kernels::Stream stream() const { return stream_; }

  // Host access to memory of the device, done when the call returns. Thread-safe.
  absl::Status Write(std::byte* to, const void* from, uint64_t bytes) const;
  absl::Status Read(void* to, const void* from, uint64_t bytes) const;
  absl::Status Zero(std::byte* to, uint64_t bytes) const;

  // How a client maps it.
  const v1::SlabHandle& handle() const { return handle_; }

 private:
  Slab(kernels::Device* device, kernels::Stream stream,
       std::unique_ptr<dataplane::SlabMemory> memory, kernels::DeviceMemory scratch,
       uint64_t scratch_bytes, v1::SlabHandle handle);

  kernels::Device* const device_;
  const kernels::Stream stream_;
  const std::unique_ptr<dataplane::SlabMemory> memory_;
  const kernels::DeviceMemory scratch_;
  const v1::SlabHandle handle_;
  const uint64_t epoch_;
  const uint64_t nonce_;
  ExtentAllocator extents_;  // everything after the header
  ExtentAllocator scratch_extents_;
};

// A random 64-bit number that is never 0: epochs, nonces, session ids.
uint64_t RandomId();

}  // namespace spin::server

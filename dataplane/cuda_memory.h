// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dataplane/slab_memory.h"

// Device memory shared by CUDA IPC: the slab of a GPU. In a build without CUDA every function here
// says so with UNIMPLEMENTED.
namespace spin::dataplane {

// What another process needs to map device memory of this one.
struct CudaIpcHandle {
  std::string handle;          // cudaIpcMemHandle_t, 64 bytes
  uint64_t offset = 0;         // of the shared bytes from the start of the handle's allocation
  int64_t process_id = 0;      // of the exporter, in its own pid namespace
  uint64_t pid_namespace = 0;  // inode of that namespace
};

// Why device memory could not be shared, for those who want to say what to change. Found again in
// the status by ShareFaultOf.
enum class ShareFault {
  kNone,
  kNoDevice,       // this process does not see the GPU
  kSamePid,        // exporter and importer have the same number in two pid namespaces
  kNotShareable,   // the memory comes from a pool or from the virtual memory API
  kInvalidHandle,  // not a handle of CUDA, or of memory that is gone
  kDriver,         // the driver refused; the message says why
};
ShareFault ShareFaultOf(const absl::Status& status);

// This process as an exporter names itself.
int64_t ProcessId();
uint64_t PidNamespace();

// A way to share `memory`, which points into an allocation made with cudaMalloc: anywhere into it.
absl::StatusOr<CudaIpcHandle> ExportCudaMemory(const void* memory);

class CudaMemory final : public SlabMemory {
 public:
  // One cudaMalloc on the GPU with this UUID. RESOURCE_EXHAUSTED if it has no room, with how much
  // is free.
  static absl::StatusOr<std::unique_ptr<CudaMemory>> Allocate(absl::string_view device_uuid,
                                                              size_t bytes);

  // Maps what a process exported. The exporter itself gets its own address, and mappings of one
  // handle are shared within the process. The first one takes about 0.1 s. Needs no CUDA context on
  // the calling thread. Fails with a ShareFault.
  static absl::StatusOr<std::unique_ptr<CudaMemory>> Open(absl::string_view device_uuid,
                                                          const CudaIpcHandle& handle,
                                                          size_t bytes);

  ~CudaMemory() override;

  std::byte* data() const override { return data_; }
  size_t size() const override { return size_; }

  class Allocation;  // what several mappings of one handle share

 private:
  CudaMemory(std::shared_ptr<Allocation> allocation, std::byte* data, size_t size)
      : allocation_(std::move(allocation)), data_(data), size_(size) {}

  const std::shared_ptr<Allocation> allocation_;
  std::byte* const data_;
  const size_t size_;
};

}  // namespace spin::dataplane

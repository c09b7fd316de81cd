// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/c/arguments.h"
#include "client/c/device.h"
#include "client/c/outcome.h"
#include "dataplane/cuda_memory.h"
#include "dataplane/shared_memory.h"
#include "dataplane/slab_header.h"
#include "spin/kernels.h"

struct spin_slab {
  std::unique_ptr<spin::dataplane::SlabMemory> memory;
  uint64_t nonce;
};

namespace spin::c_abi {
namespace {

thread_local spin_share_fault last_share_fault = SPIN_SHARE_OK;

using Memory = absl::StatusOr<std::unique_ptr<dataplane::SlabMemory>>;

Memory MapShared(const spin_device& device, const spin_slab_handle& handle) {
  if (device.uuid != kernels::kCpuUuid) {
    return Bad("handle.kind", "POSIX shared memory is for the CPU device");
  }
  if (handle.posix_path == nullptr) return Bad("handle.posix_path", "is null");
  auto memory = dataplane::SharedMemory::Open(handle.posix_path, handle.bytes);
  if (!memory.ok()) return memory.status();
  return std::make_unique<dataplane::SharedMemory>(*std::move(memory));
}

Memory MapOnGpu(const spin_device& device, const spin_slab_handle& handle) {
  if (device.uuid == kernels::kCpuUuid) return Bad("handle.kind", "CUDA IPC is for GPUs");
  const auto* const bytes = reinterpret_cast<const char*>(handle.ipc_handle);
  return dataplane::CudaMemory::Open(device.uuid,
                                     {.handle = std::string(bytes, sizeof handle.ipc_handle),
                                      .offset = handle.ipc_offset,
                                      .process_id = handle.process_id,
                                      .pid_namespace = handle.pid_namespace},
                                     handle.bytes);
}

Memory MapMemory(const spin_device& device, const spin_slab_handle& handle) {
  if (handle.bytes < sizeof(dataplane::SlabHeader)) {
    return Bad("handle.bytes", absl::StrCat(handle.bytes, " bytes are no slab"));
  }
  switch (handle.kind) {
    case SPIN_SLAB_POSIX_SHM:
      return MapShared(device, handle);
    case SPIN_SLAB_CUDA_IPC:
      return MapOnGpu(device, handle);
    default:
      return Bad("handle.kind", absl::StrCat(handle.kind, " is no kind of slab"));
  }
}

absl::Status Map(spin_device* device, const spin_slab_handle* given, spin_slab** out) {
  last_share_fault = SPIN_SHARE_OK;
  if (device == nullptr) return Bad("device", "is null");
  if (out == nullptr) return Bad("slab", "is null");
  const auto handle = Taken("handle", given, sizeof(spin_slab_handle));
  if (!handle.ok()) return handle.status();
  Memory memory = MapMemory(*device, *handle);
  if (!memory.ok()) {
    last_share_fault = static_cast<spin_share_fault>(dataplane::ShareFaultOf(memory.status()));
    return memory.status();
  }
  dataplane::SlabHeader header = {};
  absl::Status read =
      device->device->Copy(&header, (*memory)->data(), sizeof header, device->stream);
  read.Update(device->device->Synchronize(device->stream));
  if (!read.ok()) return read;
  if (!dataplane::IsSlab(header, handle->epoch, handle->bytes)) {
    return absl::FailedPreconditionError(
        "what was mapped is not the slab of this spind: another file or another run of it, or "
        "another layout version than this library's");
  }
  *out = new spin_slab{*std::move(memory), header.nonce};
  return absl::OkStatus();
}

}  // namespace
}  // namespace spin::c_abi

extern "C" {

spin_code spin_slab_map(spin_device* device, const spin_slab_handle* handle, spin_slab** slab) {
  return spin::c_abi::Guarded([&] { return spin::c_abi::Map(device, handle, slab); });
}

void spin_slab_unmap(spin_slab* slab) { delete slab; }

void* spin_slab_data(const spin_slab* slab) {
  return slab == nullptr ? nullptr : slab->memory->data();
}

uint64_t spin_slab_nonce(const spin_slab* slab) { return slab == nullptr ? 0 : slab->nonce; }

spin_share_fault spin_last_share_fault(void) { return spin::c_abi::last_share_fault; }

}  // extern "C"

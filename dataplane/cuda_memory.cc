// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/cuda_memory.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "dataplane/share_fault.h"
#include "kernels/cuda_device.h"
#include "kernels/use_cuda_device.h"

namespace spin::dataplane {
namespace {

absl::Status DriverFault(ShareFault fault, absl::string_view what, cudaError_t error) {
  (void)cudaGetLastError();  // it is told here, not by the caller's next call
  return WithFault(fault, kernels::CudaError(what, error));
}

// A function of the driver, which is not linked: this library also loads where there is none.
template <typename Function>
Function* DriverFunction(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
  return error == cudaSuccess && result == cudaDriverEntryPointSuccess
             ? reinterpret_cast<Function*>(found)
             : nullptr;
}

bool IsShareable(CUdeviceptr memory) {
  auto* const get = DriverFunction<decltype(cuPointerGetAttribute)>("cuPointerGetAttribute");
  int capable = 0;
  return get != nullptr &&
         get(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, memory) == CUDA_SUCCESS &&
         capable != 0;
}

struct Range {
  const std::byte* base = nullptr;
  size_t bytes = 0;
};

// The allocation that holds `memory`; none if that can't be told.
Range AllocationOf(CUdeviceptr memory) {
  auto* const range = DriverFunction<decltype(cuMemGetAddressRange)>("cuMemGetAddressRange");
  CUdeviceptr base = 0;
  size_t bytes = 0;
  if (range == nullptr || range(&base, &bytes, memory) != CUDA_SUCCESS) return {};
  return {reinterpret_cast<const std::byte*>(base), bytes};
}

}  // namespace

// One allocation in this process's address space: its own, or one mapped from another process.
class CudaMemory::Allocation {
 public:
  Allocation(int ordinal, std::byte* base, size_t bytes, bool own, std::string handle)
      : ordinal_(ordinal), base_(base), bytes_(bytes), own_(own), handle_(std::move(handle)) {}
  ~Allocation();

  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  const int ordinal_;
  std::byte* const base_;
  const size_t bytes_;
  const bool own_;
  const std::string handle_;
};

namespace {

// CUDA maps a handle once in a process, and never in the one that made it.
struct Registry {
  absl::Mutex mutex;
  std::map<std::string, std::weak_ptr<CudaMemory::Allocation>> known ABSL_GUARDED_BY(mutex);
};
Registry& TheRegistry() {
  static auto* const registry = new Registry;  // outlives every allocation
  return *registry;
}

std::string FreeMemory() {
  size_t free = 0;
  size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return "an unknown number of";
  return absl::StrCat(free);
}

absl::Status CheckPid(const CudaIpcHandle& handle) {
  if (handle.process_id != ProcessId() || handle.pid_namespace == PidNamespace()) {
    return absl::OkStatus();
  }
  return WithFault(
      ShareFault::kSamePid,
      absl::FailedPreconditionError(absl::StrCat(
          "spind and the engine both have process id ", handle.process_id,
          ", in two pid namespaces, and CUDA can't share memory between equal numbers: set "
          "shareProcessNamespace: true in the pod (or --pid in the container runtime)")));
}

}  // namespace

CudaMemory::Allocation::~Allocation() {
  const kernels::UseCudaDevice use(ordinal_);
  if (own_) {
    (void)cudaFree(base_);
  } else {
    (void)cudaIpcCloseMemHandle(base_);
  }
  Registry& registry = TheRegistry();
  absl::MutexLock lock(&registry.mutex);
  const auto found = registry.known.find(handle_);
  if (found != registry.known.end() && found->second.expired()) registry.known.erase(found);
}

absl::StatusOr<CudaIpcHandle> ExportCudaMemory(const void* memory) {
  cudaPointerAttributes attributes;
  const bool known = cudaPointerGetAttributes(&attributes, memory) == cudaSuccess &&
                     attributes.type == cudaMemoryTypeDevice;
  // The driver answers for the memory of the current device only.
  const kernels::UseCudaDevice use(known ? attributes.device : 0);
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  const std::byte* const base = known ? AllocationOf(address).base : nullptr;
  if (base == nullptr || !IsShareable(address)) {
    return WithFault(ShareFault::kNotShareable,
                     absl::InvalidArgumentError(
                         "this memory can't be shared by CUDA IPC: it is not device memory made "
                         "with cudaMalloc (stream-ordered pools and the virtual memory API have "
                         "handles of another kind); allocate it with cudaMalloc"));
  }
  cudaIpcMemHandle_t handle;
  const cudaError_t error = cudaIpcGetMemHandle(&handle, const_cast<void*>(memory));
  if (error != cudaSuccess) return DriverFault(ShareFault::kDriver, "cudaIpcGetMemHandle", error);
  return CudaIpcHandle{
      .handle = std::string(handle.reserved, sizeof handle.reserved),
      .offset = static_cast<uint64_t>(static_cast<const std::byte*>(memory) - base),
      .process_id = ProcessId(),
      .pid_namespace = PidNamespace()};
}

absl::StatusOr<std::unique_ptr<CudaMemory>> CudaMemory::Allocate(absl::string_view device_uuid,
                                                                 size_t bytes) {
  const absl::StatusOr<int> ordinal = kernels::CudaOrdinal(device_uuid);
  if (!ordinal.ok()) return WithFault(ShareFault::kNoDevice, ordinal.status());
  const kernels::UseCudaDevice use(*ordinal);
  void* base = nullptr;
  const cudaError_t error = cudaMalloc(&base, bytes);
  if (error != cudaSuccess) {
    return DriverFault(
        ShareFault::kDriver,
        absl::StrCat("no room for a slab of ", bytes, " bytes on ", device_uuid, ", which has ",
                     FreeMemory(), " bytes free; ask for less with --slab-bytes"),
        error);
  }
  const absl::StatusOr<CudaIpcHandle> handle = ExportCudaMemory(base);
  if (!handle.ok()) {
    (void)cudaFree(base);
    return handle.status();
  }
  auto* const data = static_cast<std::byte*>(base);
  auto allocation = std::make_shared<Allocation>(*ordinal, data, bytes, true, handle->handle);
  Registry& registry = TheRegistry();
  absl::MutexLock lock(&registry.mutex);
  registry.known[handle->handle] = allocation;
  return std::unique_ptr<CudaMemory>(new CudaMemory(std::move(allocation), data, bytes));
}

absl::StatusOr<std::unique_ptr<CudaMemory>> CudaMemory::Open(absl::string_view device_uuid,
                                                             const CudaIpcHandle& handle,
                                                             size_t bytes) {
  cudaIpcMemHandle_t raw;
  if (handle.handle.size() != sizeof raw.reserved) {
    return WithFault(ShareFault::kInvalidHandle,
                     absl::InvalidArgumentError("a CUDA IPC handle has 64 bytes"));
  }
  const absl::StatusOr<int> ordinal = kernels::CudaOrdinal(device_uuid);
  if (!ordinal.ok()) return WithFault(ShareFault::kNoDevice, ordinal.status());
  if (absl::Status status = CheckPid(handle); !status.ok()) return status;

  Registry& registry = TheRegistry();
  std::shared_ptr<Allocation> allocation;  // outlives the lock: its end may take it
  absl::MutexLock lock(&registry.mutex);
  allocation = registry.known[handle.handle].lock();
  if (allocation == nullptr) {
    const kernels::UseCudaDevice use(*ordinal);
    std::memcpy(raw.reserved, handle.handle.data(), sizeof raw.reserved);
    void* base = nullptr;
    const cudaError_t error = cudaIpcOpenMemHandle(&base, raw, cudaIpcMemLazyEnablePeerAccess);
    if (error != cudaSuccess) {
      registry.known.erase(handle.handle);
      return DriverFault(
          error == cudaErrorInvalidValue ? ShareFault::kInvalidHandle : ShareFault::kDriver,
          absl::StrCat("cannot map the slab of process ", handle.process_id, " on ", device_uuid),
          error);
    }
    const Range range = AllocationOf(reinterpret_cast<CUdeviceptr>(base));
    const size_t before = static_cast<const std::byte*>(base) - range.base;
    const size_t mapped = range.base == nullptr ? 0 : range.bytes - before;
    allocation = std::make_shared<Allocation>(*ordinal, static_cast<std::byte*>(base), mapped,
                                              false, handle.handle);
    registry.known[handle.handle] = allocation;
  }
  const size_t mapped = allocation->bytes();
  if (handle.offset > mapped || bytes > mapped - handle.offset) {
    return WithFault(ShareFault::kInvalidHandle,
                     absl::InvalidArgumentError(absl::StrCat(
                         "the memory of process ", handle.process_id, " has ", mapped, " bytes; ",
                         bytes, " from ", handle.offset, " on are not in it")));
  }
  std::byte* const data = allocation->base() + handle.offset;
  return std::unique_ptr<CudaMemory>(new CudaMemory(std::move(allocation), data, bytes));
}

CudaMemory::~CudaMemory() = default;

}  // namespace spin::dataplane

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/slab_mapping.h"

#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "dataplane/cuda_memory.h"
#include "dataplane/shared_memory.h"
#include "kernels/cuda_device.h"

namespace spin::internal {
namespace {

struct Devices {
  absl::Mutex mutex;
  std::map<std::string, std::weak_ptr<const LocalDevice>> by_uuid ABSL_GUARDED_BY(mutex);
};
Devices& TheDevices() {
  static auto* const devices = new Devices;
  return *devices;
}

using Memory = absl::StatusOr<std::unique_ptr<dataplane::SlabMemory>>;

Memory MapShared(const v1::SlabHandle& slab) {
  auto memory = dataplane::SharedMemory::Open(slab.posix_shm().path(), slab.bytes());
  if (!memory.ok()) return memory.status();
  return std::make_unique<dataplane::SharedMemory>(*std::move(memory));
}

Memory MapOnGpu(const v1::SlabHandle& slab) {
  const v1::CudaIpc& ipc = slab.cuda_ipc();
  return dataplane::CudaMemory::Open(slab.device_uuid(),
                                     {.handle = ipc.handle(),
                                      .offset = ipc.offset(),
                                      .process_id = ipc.process_id(),
                                      .pid_namespace = ipc.pid_namespace()},
                                     slab.bytes());
}

Memory MapMemory(const v1::SlabHandle& slab) {
  switch (slab.memory_case()) {
    case v1::SlabHandle::kPosixShm:
      return MapShared(slab);
    case v1::SlabHandle::kCudaIpc:
      return MapOnGpu(slab);
    case v1::SlabHandle::MEMORY_NOT_SET:
      break;
  }
  return absl::FailedPreconditionError("spind offers a kind of memory that this build cannot map");
}

absl::Status CheckHeader(const dataplane::SlabHeader& header, const v1::SlabHandle& slab) {
  if (dataplane::IsSlab(header, slab.epoch(), slab.bytes())) return absl::OkStatus();
  return absl::FailedPreconditionError(
      slab.has_posix_shm()
          ? absl::StrCat(slab.posix_shm().path(),
                         " is not the slab of this spind: share its folder with the engine")
          : "what was mapped is not the slab of this spind");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const LocalDevice>> DeviceOf(absl::string_view uuid) {
  Devices& devices = TheDevices();
  absl::MutexLock lock(&devices.mutex);
  std::weak_ptr<const LocalDevice>& known = devices.by_uuid[std::string(uuid)];
  if (auto local = known.lock()) return local;
  absl::StatusOr<std::unique_ptr<kernels::Device>> device =
      uuid == kernels::kCpuUuid ? kernels::MakeCpuDevice() : kernels::MakeCudaDevice(uuid);
  if (!device.ok()) return device.status();
  const auto stream = (*device)->MakeStream();
  if (!stream.ok()) return stream.status();
  auto local = std::make_shared<const LocalDevice>(LocalDevice{*std::move(device), *stream});
  known = local;
  return local;
}

absl::StatusOr<MappedSlab> MapSlab(const v1::SlabHandle& slab) {
  auto local = DeviceOf(slab.device_uuid());
  if (!local.ok()) return local.status();
  Memory memory = MapMemory(slab);
  if (!memory.ok()) return memory.status();
  kernels::Device& device = *(*local)->device;
  dataplane::SlabHeader header = {};
  absl::Status read = device.Copy(&header, (*memory)->data(), sizeof header, (*local)->stream);
  read.Update(device.Synchronize((*local)->stream));
  if (read.ok()) read = CheckHeader(header, slab);
  if (!read.ok()) return read;
  return MappedSlab{*std::move(local), *std::move(memory), header};
}

}  // namespace spin::internal

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/slab.h"

#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "dataplane/shared_memory.h"
#include "dataplane/slab_header.h"
#include "server/memory_limit.h"

namespace spin::server {
namespace {

using dataplane::CudaMemory;
using dataplane::SharedMemory;
using dataplane::SlabMemory;

constexpr char kFilePrefix[] = "spin-slab-";

// Engines keep the memory of a killed predecessor alive until they notice its end and unmap.
constexpr absl::Duration kMemoryPatience = absl::Seconds(3);

// Sessions of many requests need the most scratch memory: about a 64th of what their state takes.
constexpr uint64_t kScratchShare = 64;
constexpr uint64_t kMinScratchBytes = 16 << 20;

// What spind takes beside slab and scratch memory, at least.
constexpr uint64_t kOwnBytes = 16 << 20;

constexpr uint64_t RoundDown(uint64_t bytes) {
  return bytes / dataplane::kSlabAlignment * dataplane::kSlabAlignment;
}

using MadeMemory = absl::StatusOr<std::unique_ptr<SlabMemory>>;

// Makes the slab's memory, trying again for a while where only others' use is in the way.
MadeMemory MakePatiently(absl::string_view where, absl::FunctionRef<MadeMemory()> make) {
  MadeMemory memory = make();
  if (!absl::IsResourceExhausted(memory.status())) return memory;
  spdlog::warn(
      "no room for the slab in {} now: waiting up to {} for engines to let go of an earlier one",
      std::string(where), absl::FormatDuration(kMemoryPatience));
  const absl::Time deadline = absl::Now() + kMemoryPatience;
  while (absl::IsResourceExhausted(memory.status()) && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(20));
    memory = make();
  }
  return memory;
}

template <typename Memory>
MadeMemory AsSlabMemory(absl::StatusOr<Memory> memory) {
  if (!memory.ok()) return memory.status();
  return std::make_unique<Memory>(*std::move(memory));
}

bool CouldEverHold(const std::string& directory, uint64_t bytes) {
  struct statvfs info = {};
  return statvfs(directory.c_str(), &info) == 0 && uint64_t{info.f_blocks} * info.f_frsize >= bytes;
}

// The scratch memory that goes with a slab.
uint64_t ScratchFor(uint64_t slab_bytes) {
  return std::max(RoundDown(slab_bytes / kScratchShare), kMinScratchBytes);
}

// Shared memory counts for the container of spind, and the kernel would kill spind for it in the
// middle of the start, without a word.
absl::Status CheckMemoryLimit(uint64_t bytes) {
  const std::optional<uint64_t> limit = MemoryLimit();
  const uint64_t needed = bytes + ScratchFor(bytes) + kOwnBytes;
  if (!limit.has_value() || needed <= *limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("no room for a slab of ", bytes, " bytes within the memory limit of ", *limit,
                   " bytes, which must be at least ", needed,
                   ": raise the limit, or ask for less with --slab-bytes"));
}

MadeMemory MakeShared(const std::string& directory, uint64_t bytes, v1::SlabHandle* handle) {
  const absl::Status within_limit = CheckMemoryLimit(bytes);
  if (!within_limit.ok()) return within_limit;
  dataplane::RemoveAbandoned(directory, kFilePrefix);
  const std::string path =
      absl::StrFormat("%s/%s%d-%016x", directory, kFilePrefix, getpid(), handle->epoch());
  handle->mutable_posix_shm()->set_path(path);
  const auto make = [&] { return AsSlabMemory(SharedMemory::Create(path, bytes)); };
  return CouldEverHold(directory, bytes) ? MakePatiently(directory, make) : make();
}

MadeMemory MakeOnGpu(absl::string_view uuid, uint64_t bytes, v1::SlabHandle* handle) {
  MadeMemory memory =
      MakePatiently(uuid, [&]() -> MadeMemory { return CudaMemory::Allocate(uuid, bytes); });
  if (!memory.ok()) return memory;
  const auto exported = dataplane::ExportCudaMemory((*memory)->data());
  if (!exported.ok()) return exported.status();
  v1::CudaIpc& ipc = *handle->mutable_cuda_ipc();
  ipc.set_handle(exported->handle);
  ipc.set_offset(exported->offset);
  ipc.set_process_id(exported->process_id);
  ipc.set_pid_namespace(exported->pid_namespace);
  return memory;
}

}  // namespace

uint64_t RandomId() {
  uint64_t id = 0;
  while (id == 0) {
    if (getrandom(&id, sizeof id, 0) != sizeof id)
      std::abort();  // only fails for a bad pointer or size
  }
  return id;
}

absl::StatusOr<std::unique_ptr<Slab>> Slab::Create(kernels::Device* device,
                                                   const std::string& directory, uint64_t bytes) {
  bytes = RoundDown(bytes);
  v1::SlabHandle handle;
  handle.set_device_uuid(std::string(device->uuid()));
  handle.set_epoch(RandomId());
  handle.set_bytes(bytes);
  MadeMemory memory = device->uuid() == kernels::kCpuUuid
                          ? MakeShared(directory, bytes, &handle)
                          : MakeOnGpu(device->uuid(), bytes, &handle);
  if (!memory.ok()) return memory.status();
  const uint64_t scratch_bytes = ScratchFor(bytes);
  auto scratch = device->Allocate(static_cast<int64_t>(scratch_bytes));
  if (!scratch.ok()) return scratch.status();
  const auto stream = device->MakeStream();
  if (!stream.ok()) return stream.status();
  std::unique_ptr<Slab> slab(new Slab(device, *stream, *std::move(memory), *std::move(scratch),
                                      scratch_bytes, std::move(handle)));
  const dataplane::SlabHeader header = {.magic = dataplane::kSlabMagic,
                                        .layout_version = dataplane::kLayoutVersion,
                                        .reserved = 0,
                                        .epoch = slab->epoch_,
                                        .bytes = slab->bytes(),
                                        .nonce = slab->nonce_};
  const absl::Status written = slab->Write(slab->data(), &header, sizeof header);
  if (!written.ok()) return written;
  return slab;
}

Slab::Slab(kernels::Device* device, kernels::Stream stream, std::unique_ptr<SlabMemory> memory,
           kernels::DeviceMemory scratch, uint64_t scratch_bytes, v1::SlabHandle handle)
    : device_(device),
      stream_(stream),
      memory_(std::move(memory)),
      scratch_(std::move(scratch)),
      handle_(std::move(handle)),
      epoch_(handle_.epoch()),
      nonce_(RandomId()),
      extents_(dataplane::kSlabAlignment, memory_->size()),
      scratch_extents_(0, scratch_bytes) {}

absl::Status Slab::Write(std::byte* to, const void* from, uint64_t bytes) const {
  absl::Status status = device_->Copy(to, from, static_cast<int64_t>(bytes), stream_);
  status.Update(device_->Synchronize(stream_));
  return status;
}

absl::Status Slab::Read(void* to, const void* from, uint64_t bytes) const {
  absl::Status status = device_->Copy(to, from, static_cast<int64_t>(bytes), stream_);
  status.Update(device_->Synchronize(stream_));
  return status;
}

absl::Status Slab::Zero(std::byte* to, uint64_t bytes) const {
  absl::Status status = device_->Zero(to, static_cast<int64_t>(bytes), stream_);
  status.Update(device_->Synchronize(stream_));
  return status;
}

}  // namespace spin::server

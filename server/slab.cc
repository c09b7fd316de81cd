// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/slab.h"

#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "kernels/device.h"

namespace spin::server {
namespace {

constexpr char kFilePrefix[] = "spin-slab-";

// Engines keep the memory of a killed predecessor alive until they notice its end and unmap.
constexpr absl::Duration kMemoryPatience = absl::Seconds(3);

constexpr uint64_t RoundDown(uint64_t bytes) {
  return bytes / dataplane::kSlabAlignment * dataplane::kSlabAlignment;
}

bool CouldEverHold(const std::string& directory, uint64_t bytes) {
  struct statvfs info = {};
  return statvfs(directory.c_str(), &info) == 0 && uint64_t{info.f_blocks} * info.f_frsize >= bytes;
}

// Creates the slab's file, trying again for a while where only others' use of the file system is in
// the way.
absl::StatusOr<dataplane::SharedMemory> CreateMemory(const std::string& directory,
                                                     const std::string& path, uint64_t bytes) {
  auto memory = dataplane::SharedMemory::Create(path, bytes);
  if (!absl::IsResourceExhausted(memory.status()) || !CouldEverHold(directory, bytes))
    return memory;
  spdlog::warn(
      "no room for the slab in {} now: waiting up to {} for engines to let go of an earlier one",
      directory, absl::FormatDuration(kMemoryPatience));
  const absl::Time deadline = absl::Now() + kMemoryPatience;
  while (absl::IsResourceExhausted(memory.status()) && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(20));
    memory = dataplane::SharedMemory::Create(path, bytes);
  }
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

absl::StatusOr<std::unique_ptr<Slab>> Slab::CreateInSharedMemory(const std::string& directory,
                                                                 uint64_t bytes) {
  dataplane::RemoveAbandoned(directory, kFilePrefix);
  const uint64_t epoch = RandomId();
  const std::string path =
      absl::StrFormat("%s/%s%d-%016x", directory, kFilePrefix, getpid(), epoch);
  auto memory = CreateMemory(directory, path, RoundDown(bytes));
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<Slab>(new Slab(*std::move(memory), epoch, RandomId()));
}

Slab::Slab(dataplane::SharedMemory memory, uint64_t epoch, uint64_t nonce)
    : memory_(std::move(memory)),
      epoch_(epoch),
      nonce_(nonce),
      extents_(dataplane::kSlabAlignment, memory_.size()) {
  *reinterpret_cast<dataplane::SlabHeader*>(memory_.data()) = {
      .magic = dataplane::kSlabMagic,
      .layout_version = dataplane::kLayoutVersion,
      .reserved = 0,
      .epoch = epoch_,
      .bytes = memory_.size(),
      .nonce = nonce_};
}

v1::SlabHandle Slab::Handle() const {
  v1::SlabHandle handle;
  handle.set_device_uuid(std::string(kernels::kCpuUuid));
  handle.set_epoch(epoch_);
  handle.set_bytes(memory_.size());
  handle.mutable_posix_shm()->set_path(memory_.path());
  return handle;
}

}  // namespace spin::server

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/slab.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/device.h"

namespace spin::server {
namespace {

constexpr char kFilePrefix[] = "spin-slab-";

constexpr uint64_t RoundDown(uint64_t bytes) {
  return bytes / dataplane::kSlabAlignment * dataplane::kSlabAlignment;
}

}  // namespace

uint64_t RandomId() {
  uint64_t id = 0;
  while (id == 0) {
    if (getrandom(&id, sizeof id, 0) != sizeof id) std::abort();  // only fails for a bad pointer or size
  }
  return id;
}

absl::StatusOr<std::unique_ptr<Slab>> Slab::CreateInSharedMemory(const std::string& directory,
                                                                 uint64_t bytes) {
  dataplane::RemoveAbandoned(directory, kFilePrefix);
  const uint64_t epoch = RandomId();
  const std::string path = absl::StrFormat("%s/%s%d-%016x", directory, kFilePrefix, getpid(), epoch);
  auto memory = dataplane::SharedMemory::Create(path, RoundDown(bytes));
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

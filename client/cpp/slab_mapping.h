// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dataplane/slab_header.h"
#include "dataplane/slab_memory.h"
#include "kernels/device.h"
#include "spin/v1/session.pb.h"

// How this process gets at devices and slabs.
namespace spin::internal {

// A device of this process, with a stream for work outside of the engine's.
struct LocalDevice {
  std::unique_ptr<kernels::Device> device;
  kernels::Stream stream;
};

// The device with this UUID: a GPU, or the CPU for "CPU". All who ask for one share it as long as
// anybody holds it.
absl::StatusOr<std::shared_ptr<const LocalDevice>> DeviceOf(absl::string_view uuid);

struct MappedSlab {
  std::shared_ptr<const LocalDevice> local;
  std::unique_ptr<dataplane::SlabMemory> memory;
  dataplane::SlabHeader header;
};

// Maps what spind offers, and checks that it is that. FAILED_PRECONDITION says what to change.
absl::StatusOr<MappedSlab> MapSlab(const v1::SlabHandle& slab);

}  // namespace spin::internal

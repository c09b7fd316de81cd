// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/device.h"

// The CUDA implementation of Device. In a build without CUDA (SPIN_CUDA=OFF) every function here
// says so with UNIMPLEMENTED.
namespace spin::kernels {

struct CudaDeviceInfo {
  std::string uuid;  // "GPU-...", as the driver prints it
  std::string name;
  int64_t total_bytes;
};

// The GPUs this process can see. UNAVAILABLE, with the driver's reason, if there is none.
absl::StatusOr<std::vector<CudaDeviceInfo>> ListCudaDevices();

// The GPU with this UUID, in any form that the driver prints; the only visible one if empty. MIG
// instances are UNIMPLEMENTED. Loads all kernels (about a second for the
// first device of a process). NOT_FOUND names the visible ones. The calling thread needs no CUDA
// context; every method of the device makes its own current.
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(absl::string_view uuid);

// The runtime's number of a GPU in this process. Errors as of MakeCudaDevice.
absl::StatusOr<int> CudaOrdinal(absl::string_view uuid);

// "cudaErrorX: its description", as an error of the code that fits.
absl::Status CudaError(absl::string_view what, int error);

}  // namespace spin::kernels

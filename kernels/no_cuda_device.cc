// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Takes the place of cuda_device.cc in a build without CUDA.
#include "kernels/cuda_device.h"

namespace spin::kernels {
namespace {

absl::Status NoCuda() { return absl::UnimplementedError("this build has no CUDA device"); }

}  // namespace

absl::StatusOr<std::vector<CudaDeviceInfo>> ListCudaDevices() { return NoCuda(); }
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(absl::string_view) { return NoCuda(); }
absl::StatusOr<int> CudaOrdinal(absl::string_view) { return NoCuda(); }
absl::Status CudaError(absl::string_view, int) { return NoCuda(); }

}  // namespace spin::kernels

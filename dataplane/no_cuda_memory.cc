// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Takes the place of cuda_memory.cc in a build without CUDA.
#include "dataplane/cuda_memory.h"

namespace spin::dataplane {
namespace {

absl::Status NoCuda() { return absl::UnimplementedError("this build has no CUDA device"); }

}  // namespace

class CudaMemory::Allocation {};

absl::StatusOr<CudaIpcHandle> ExportCudaMemory(const void*) { return NoCuda(); }
absl::StatusOr<std::unique_ptr<CudaMemory>> CudaMemory::Allocate(absl::string_view, size_t) {
  return NoCuda();
}
absl::StatusOr<std::unique_ptr<CudaMemory>> CudaMemory::Open(absl::string_view,
                                                             const CudaIpcHandle&, size_t) {
  return NoCuda();
}
CudaMemory::~CudaMemory() = default;

}  // namespace spin::dataplane

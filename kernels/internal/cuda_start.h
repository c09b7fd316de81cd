// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

// How kernels are launched. Not with <<<>>>: what became of that is only told by cudaGetLastError,
// which may tell of an error that the engine has left there.
namespace spin::kernels::internal {

inline cudaLaunchConfig_t LaunchConfig(dim3 grid, int threads, size_t shared_bytes,
                                       cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<uint32_t>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return config;
}

template <typename... Params, typename... Args>
cudaError_t Launch(void (*kernel)(Params...), dim3 grid, int threads, cudaStream_t stream,
                   const Args&... args) {
  const cudaLaunchConfig_t config = LaunchConfig(grid, threads, 0, stream);
  return cudaLaunchKernelEx(&config, kernel, args...);
}

// Programmatic dependent launch: a kernel may start while the one before it on the stream ends, and
// waits for its results itself. It hides the launch, and what the kernel does before it waits.

#ifdef __CUDACC__
// Every thread block calls this before it touches what the kernel before may have written. What
// follows on the stream may get ready from here on.
__device__ inline void WaitForKernelBefore() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
#endif

// Launches a kernel that calls WaitForKernelBefore.
template <typename... Params, typename... Args>
cudaError_t LaunchEarly(void (*kernel)(Params...), dim3 grid, int threads, size_t shared_bytes,
                        cudaStream_t stream, const Args&... args) {
  cudaLaunchConfig_t config = LaunchConfig(grid, threads, shared_bytes, stream);
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, args...);
}

}  // namespace spin::kernels::internal

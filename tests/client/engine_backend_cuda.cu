// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "tests/client/engine_backend.h"
#include "tests/client/first_gpu.h"

namespace spin {
namespace {

void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "engine: %s\n", cudaGetErrorString(error));
  std::abort();
}

// Grid: (slots, next_n, rows).
__global__ void ScoreKernel(PagedScoring s) {
  const int64_t at = int64_t{blockIdx.z} * s.next_n + blockIdx.y;
  for (int32_t c = blockIdx.x * blockDim.x + threadIdx.x; c < s.slots[at];
       c += gridDim.x * blockDim.x) {
    const int32_t page = s.table[int64_t{blockIdx.z} * s.table_stride + c / s.block];
    s.scores[at * s.scores_stride + c] =
        s.pages[(blockIdx.y * s.page_count + page) * s.block + c % s.block];
  }
}

__global__ void StallKernel(int64_t nanoseconds) {
  uint64_t start;
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (static_cast<int64_t>(now - start) < nanoseconds);
}

class CudaEngine final : public EngineBackend {
 public:
  explicit CudaEngine(std::string uuid) : uuid_(std::move(uuid)) {
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }

  std::string device_uuid() const override { return uuid_; }
  void* stream() const override { return stream_; }

  void Score(const PagedScoring& s, void* stream) const override {
    ScoreKernel<<<dim3(8, s.next_n, s.rows), 256, 0, static_cast<cudaStream_t>(stream)>>>(s);
    Check(cudaGetLastError());
  }

  void Stall(absl::Duration duration) const override {
    StallKernel<<<1, 1, 0, stream_>>>(absl::ToInt64Nanoseconds(duration));
    Check(cudaGetLastError());
  }

  bool Idle() const override { return cudaStreamQuery(stream_) == cudaSuccess; }

  // Of the whole process, as engines do: whatever other threads call meanwhile must not spoil it.
  std::function<void()> Capture(const std::function<void(void*)>& launches) const override {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    launches(stream_);
    Check(cudaStreamEndCapture(stream_, &graph));
    Check(cudaGraphInstantiate(&exec, graph, 0));
    return [exec, stream = stream_] { Check(cudaGraphLaunch(exec, stream)); };
  }

 private:
  const std::string uuid_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

std::unique_ptr<EngineBackend> MakeEngineBackend() {
  std::string uuid = FirstGpu();
  if (uuid.empty()) return nullptr;
  return std::make_unique<CudaEngine>(std::move(uuid));
}

}  // namespace spin

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <cuda_runtime.h>

#include "client/cli/replay/cuda_scorer.h"
#include "kernels/cuda_device.h"
#include "trace/fp8.h"

namespace spin::cli {
namespace {

constexpr int kThreads = 128;

struct Tensors {
  const uint8_t* k;      // [layers][slots][dim]
  const float* k_scale;  // [layers][slots]
  const uint8_t* q;      // [layers][steps][heads][dim]
  const float* w;        // [layers][steps][heads]
  const float* decode;   // [256] FP8 to fp32
  int slots;
  int steps;
  int heads;
  int dim;
};

// A thread for each slot: heads ascending, dimensions ascending, one accumulator, as on the CPU.
__global__ void __launch_bounds__(kThreads)
    ScoreKernel(Tensors t, int layer, int step, const int32_t* table, const int32_t* slots,
                int32_t block, float* scores) {
  extern __shared__ float shared[];
  float* const decode = shared;       // [256]
  float* const query = shared + 256;  // [heads][dim]
  const int64_t row = int64_t{layer} * t.steps + step;
  for (int i = threadIdx.x; i < 256; i += kThreads) decode[i] = t.decode[i];
  __syncthreads();
  for (int i = threadIdx.x; i < t.heads * t.dim; i += kThreads) {
    query[i] = decode[t.q[row * t.heads * t.dim + i]];
  }
  __syncthreads();
  const int32_t c = blockIdx.x * kThreads + threadIdx.x;
  if (c >= *slots) return;
  const int64_t slot = int64_t{layer} * t.slots + table[c / block] * block + c % block;
  const uint8_t* const key = t.k + slot * t.dim;
  float sum = 0;
  for (int head = 0; head < t.heads; ++head) {
    const float* const q = query + head * t.dim;
    float product = 0;
    for (int d = 0; d < t.dim; ++d) product = __fmaf_rn(decode[key[d]], q[d], product);
    sum = __fmaf_rn(t.w[row * t.heads + head], product < 0.0f ? 0.0f : product, sum);
  }
  scores[c] = sum * t.k_scale[slot];
}

class CudaScorerImpl final : public CudaScorer {
 public:
  explicit CudaScorerImpl(kernels::Device* device) : device_(device) {}

  absl::Status Upload(const trace::Trace& trace) {
    tensors_ = {.slots = trace.slots, .steps = trace.steps, .heads = trace.heads, .dim = trace.dim};
    absl::Status status = Send(trace.k.data(), trace.k.size(), &k_, &tensors_.k);
    status.Update(Send(trace.k_scale.data(), trace.k_scale.size(), &k_scale_, &tensors_.k_scale));
    status.Update(Send(trace.q.data(), trace.q.size(), &q_, &tensors_.q));
    status.Update(Send(trace.w.data(), trace.w.size(), &w_, &tensors_.w));
    status.Update(Send(trace::kFp8ToFloat.data(), 256, &decode_, &tensors_.decode));
    status.Update(device_->Synchronize({}));
    return status;
  }

  absl::Status Score(int layer, int step, const int32_t* table, const int32_t* slots, int32_t block,
                     int32_t max_slots, float* scores, kernels::Stream stream) override {
    const size_t shared =
        (256 + static_cast<size_t>(tensors_.heads) * tensors_.dim) * sizeof(float);
    ScoreKernel<<<(max_slots + kThreads - 1) / kThreads, kThreads, shared,
                  static_cast<cudaStream_t>(stream.handle)>>>(tensors_, layer, step, table, slots,
                                                              block, scores);
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? absl::OkStatus() : kernels::CudaError("scoring", error);
  }

 private:
  template <typename T>
  absl::Status Send(const T* from, size_t count, kernels::DeviceMemory* to, const T** at) {
    const auto bytes = static_cast<int64_t>(count * sizeof(T));
    auto memory = device_->Allocate(bytes);
    if (!memory.ok()) return memory.status();
    *to = *std::move(memory);
    *at = reinterpret_cast<const T*>(to->get());
    return device_->Copy(to->get(), from, bytes, {});
  }

  kernels::Device* const device_;
  kernels::DeviceMemory k_, k_scale_, q_, w_, decode_;
  Tensors tensors_ = {};
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaScorer>> MakeCudaScorer(const trace::Trace& trace,
                                                           kernels::Device* device) {
  auto scorer = std::make_unique<CudaScorerImpl>(device);
  if (absl::Status status = scorer->Upload(trace); !status.ok()) return status;
  return scorer;
}

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "kernels/device.h"

// A session in GPU memory as spind would lay it out, filled with made-up history: what the GPU
// benchmarks run their steps on.
namespace spin::bench {

// Ends the program with the name of the error.
void Check(cudaError_t error);
void Check(const absl::Status& status);

struct BedShape {
  int64_t slots = 131072;
  int requests = 8;
  int layers = 21;
  double sparsity = 0.4;
  int topk = 512;
  kernels::Dtype state = kernels::Dtype::kBF16;
  kernels::Dtype scores = kernels::Dtype::kF32;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(size_t bytes) { Check(cudaMalloc(&data_, bytes)); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { (void)cudaFree(data_); }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

// Requests whose contexts are full, one step after a full scan. Step() may be launched any number
// of times: it observes the scores of the same step again, and selects for the one after it.
class Bed {
 public:
  Bed(kernels::Device& device, const BedShape& shape, cudaStream_t stream);

  void Step() {
    Observe();
    Select();
  }
  void Observe();
  void Select();

  // Bytes of state and scores that a step goes through, about.
  int64_t bytes_per_step() const;
  // Blocks in the lists over all blocks.
  double KeptShare() const;

 private:
  kernels::Geometry geometry() const;
  int32_t max_blocks() const;
  kernels::ListTable lists() const;
  void MakeRecords();
  void MakeScores();

  kernels::Device& device_;
  const BedShape shape_;
  const kernels::Stream stream_;
  const int64_t pages_per_request_;
  DeviceMemory slab_;
  DeviceMemory records_;
  DeviceMemory headers_;
  DeviceMemory blocks_;
  DeviceMemory masks_;
  DeviceMemory counters_;
  DeviceMemory policy_;
  DeviceMemory scored_;  // ScoredRow[requests]: this step
  DeviceMemory next_;    // Row[requests]: the next one
  DeviceMemory scores_;
  DeviceMemory workspace_;
};

}  // namespace spin::bench

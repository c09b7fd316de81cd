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
  int tokens_per_slot = 4;
  int block_slots = 64;
  int next_n = 1;  // verifier rows of each request, all of them accepted
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

// Requests that decode on after a full scan, through a session that is found by a binding as in an
// engine's graph. A launch names its step: 0 is the one after those that Advance was told of. Their
// contexts have the shape's slots, or a few hundred less, as they grow and start again.
class Bed {
 public:
  // Launches are for so many steps at most until the next call of Advance.
  Bed(kernels::Device& device, const BedShape& shape, int steps, cudaStream_t stream);

  // Observe and Select.
  void Step(int step) {
    Observe(step);
    Select(step);
  }
  // The same with compacted tables of the lists, made in the same launch.
  void StepWithTables(int step) {
    Observe(step);
    SelectAndCompact(step);
  }
  // The scores of the step. It may be observed several times.
  void Observe(int step);
  // The lists of the step after it.
  void Select(int step);
  void SelectAndCompact(int step);

  // So many steps were made. Waits for them.
  void Advance(int steps);

  // Bytes of state and scores that a step goes through, about.
  int64_t bytes_per_step() const;
  // Blocks in the list of step 0 over all blocks.
  double KeptShare() const;
  // Ends the program if a step that Advance was told of was not observed, or more than once.
  void CheckObserved() const;

 private:
  kernels::Geometry geometry() const;
  int32_t max_blocks() const;
  kernels::ListTable lists() const;
  const kernels::Binding* binding() const;
  kernels::SelectParams SelectParamsOf(int step) const;
  const kernels::ScoredRow* ScoredRowsOf(int step) const;
  const kernels::Row* NextRowsOf(int step) const;
  // A full scan, and the lists of the first step.
  void Start();
  int64_t PositionOf(int step, int request) const;
  void WriteRows(kernels::Coverage coverage);
  void MakeRecords();
  void MakeScores();
  void MakeBlockTable();

  kernels::Device& device_;
  const BedShape shape_;
  const int steps_;
  const kernels::Stream stream_;
  int64_t position_ = 0;  // of step 0, of a request whose first row begins a slot
  int64_t turn_ = 0;      // of step 0: steps since the full scan
  uint64_t observed_blocks_ = 0;
  const int64_t pages_per_request_;
  DeviceMemory slab_;
  DeviceMemory records_;
  DeviceMemory headers_;
  DeviceMemory blocks_;
  DeviceMemory masks_;
  DeviceMemory counters_;
  DeviceMemory policy_;
  DeviceMemory binding_;
  DeviceMemory scored_;  // ScoredRow[steps][requests]
  DeviceMemory next_;    // Row[steps][requests]: of the step after each
  DeviceMemory scores_;
  DeviceMemory workspace_;
  DeviceMemory block_table_;
  DeviceMemory kept_table_;
  DeviceMemory kept_blocks_;
  DeviceMemory kept_slots_;
};

}  // namespace spin::bench

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "trace/trace.h"

namespace spin::cli {

// The trace's indexer on a GPU: a small paged scoring kernel for replays, not a fast one. A score
// is the same bits as that of trace::Scorer with FMA, wherever in a call it is computed.
class CudaScorer {
 public:
  virtual ~CudaScorer() = default;

  // Element c of `scores` becomes the score of slot table[c / block] * block + c % block, for c
  // below *slots; everything in memory of the device. `max_slots` sizes the launch.
  virtual absl::Status Score(int layer, int step, const int32_t* table, const int32_t* slots,
                             int32_t block, int32_t max_slots, float* scores,
                             kernels::Stream stream) = 0;
};

// Copies keys and queries of the trace to the device, which must outlive the scorer. UNIMPLEMENTED
// in a build without CUDA.
absl::StatusOr<std::unique_ptr<CudaScorer>> MakeCudaScorer(const trace::Trace& trace,
                                                           kernels::Device* device);

}  // namespace spin::cli

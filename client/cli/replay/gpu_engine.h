// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/replay/cuda_scorer.h"
#include "client/cli/replay/engine.h"
#include "client/cli/replay/layer_buffers.h"
#include "kernels/device.h"
#include "spin/device_loop.h"
#include "trace/trace.h"

namespace spin::cli {

// Scores stay on the GPU; only what the judge wants to see comes back.
class GpuEngine final : public Engine {
 public:
  // The session must outlive the engine. Contexts up to `max_slots`.
  static absl::StatusOr<std::unique_ptr<GpuEngine>> Create(Session* session,
                                                           const std::string& device_uuid,
                                                           const trace::Trace& trace,
                                                           int64_t max_slots, int topk, int block);

  absl::StatusOr<StepTimes> Decode(const Request& request, int step) override;
  LayerOutput output(int layer) const override { return layers_[layer].output(); }

 private:
  GpuEngine(std::unique_ptr<kernels::Device> device, const trace::Trace& trace, int32_t max_blocks,
            int topk, int block);
  absl::Status Prepare(Session* session, const trace::Trace& trace);
  template <typename T>
  absl::Status Allocate(int64_t count, T** out);
  absl::Status Finish(double* lap, double* seconds);
  absl::Status Fetch();

  const std::unique_ptr<kernels::Device> device_;
  const int layer_count_;
  const int first_query_;
  const int32_t max_blocks_;
  const int block_;
  kernels::Stream stream_;
  std::vector<kernels::DeviceMemory> memory_;
  int32_t* table_ = nullptr;        // [max_blocks]
  int32_t* kept_table_ = nullptr;   // [layers][max_blocks]
  int32_t* kept_blocks_ = nullptr;  // [layers][max_blocks]
  int32_t* kept_slots_ = nullptr;   // [layers]
  float* scores_ = nullptr;         // [layers][max_blocks * block]
  std::unique_ptr<CudaScorer> scorer_;
  std::unique_ptr<DeviceLoop> loop_;
  std::vector<LayerBuffers> layers_;
};

}  // namespace spin::cli

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

#include "dataplane/session_view.h"
#include "dataplane/slab_header.h"
#include "dataplane/step_runner.h"
#include "kernels/device.h"
#include "kernels/policy.h"

namespace spin::dataplane {

// A session in a slab of its own on the CPU device: 2 layers, blocks of 16 slots, a top-K of one
// block, 2 requests with a page each, staging for 2 verifier rows.
class TinySession {
 public:
  TinySession() : slab_(new (std::align_val_t{kSlabAlignment}) std::byte[kBytes]()) {
    for (uint32_t request = 0; request < 2; ++request) {
      const uint64_t page = layout_.end + request * kernels::PageBytes(kShape.geometry);
      kernels::RequestRecord& record = view().records[request];
      record.generation = 5;
      record.page_count = 1;
      record.pages[0] = static_cast<uint32_t>(page / kernels::kPageOffsetUnit);
      kernels::FillCpu({.geometry = kShape.geometry,
                        .slab = slab_.get(),
                        .pages = record.pages,
                        .page_count = 1,
                        .zero_init = false});
    }
  }

  static constexpr uint64_t kEpoch = 77;
  static constexpr uint32_t kGeneration = 5;
  static constexpr SessionShape kShape = {.geometry = {.layers = 2,
                                                       .block = 16,
                                                       .topk = 16,
                                                       .tokens_per_slot = 1,
                                                       .state = kernels::Dtype::kF32},
                                          .max_slots = 400,
                                          .max_requests = 2,
                                          .max_next_n = 2,
                                          .scores = kernels::Dtype::kF32,
                                          .staging = true};

  kernels::Device* device() { return device_.get(); }
  SessionView view() const { return ViewOf(slab_.get(), kEpoch, kShape, layout_); }

  // A runner over view(), on any device that can use host memory.
  StepRunner Runner(kernels::Device* device) {
    scratch_ = *device_->Allocate(StepRunner::ScratchBytes(*device_, kShape));
    return StepRunner(device, view(), scratch_.get());
  }

  // Scores of one staged row: the first max_slots of them are `value`.
  void Stage(int32_t layer, int32_t row, float value) {
    float* scores = reinterpret_cast<float*>(view().StagedRow(layer, row, 0));
    std::fill_n(scores, kShape.max_slots, value);
  }

  float V(uint32_t request, int32_t layer, int64_t slot) const {
    const kernels::StateView state = view().state();
    return *reinterpret_cast<const float*>(PageAt(state, state.records[request], 0) +
                                           VOffset(kShape.geometry, layer, slot));
  }

 private:
  static constexpr size_t kBytes = 1 << 20;
  struct Free {
    void operator()(std::byte* slab) const {
      operator delete[](slab, std::align_val_t{kSlabAlignment});
    }
  };

  const SessionLayout layout_ = LayoutAt(kSlabAlignment, kShape);
  std::unique_ptr<std::byte[], Free> slab_;
  std::unique_ptr<kernels::Device> device_ = kernels::MakeCpuDevice();
  kernels::DeviceMemory scratch_;
};

// Keeps about half of the blocks of each layer.
inline kernels::Policy HalfSparsity() {
  kernels::Policy policy = {};
  std::fill(std::begin(policy.sparsity), std::end(policy.sparsity), 0.5);
  return policy;
}

inline kernels::ScoredRow ScoredAt(int64_t position, kernels::Coverage coverage,
                                   uint32_t request = 0) {
  return {.request = request,
          .next_n = 1,
          .position = position,
          .accepted = 1,
          .buffer = 0,
          .coverage = coverage,
          .score_row = request};
}

inline kernels::Row RowAt(int64_t position, uint32_t request = 0) {
  return {.request = request, .next_n = 1, .position = position, .buffer = 0, .generation = 0};
}

}  // namespace spin::dataplane

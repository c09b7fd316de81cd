// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/spin_state.h"

#include <algorithm>

#include "kernels/ema.h"
#include "kernels/fill.h"
#include "kernels/observe.h"
#include "kernels/predict.h"

namespace spin::prediction {
namespace {

constexpr kernels::LayerRange kOneLayer = {0, 1};
constexpr uint64_t kEpoch = 1;
constexpr uint32_t kGeneration = 1;

}  // namespace

SpinState::SpinState(const kernels::Geometry& geometry, int64_t max_slots, double decay)
    : geometry_(geometry), decay_(decay), records_(1) {
  const int32_t pages = kernels::PagesFor(max_slots);
  const int64_t page_bytes = kernels::PageBytes(geometry);
  slab_.resize(pages * page_bytes);
  records_[0].generation = kGeneration;
  records_[0].page_count = pages;
  for (int32_t page = 0; page < pages; ++page) {
    records_[0].pages[page] = static_cast<uint32_t>(page * page_bytes / kernels::kPageOffsetUnit);
  }
  kernels::FillCpu({geometry, slab_.data(), records_[0].pages, pages, /*zero_init=*/false});
  blocks_.resize(kernels::BlocksOf(max_slots, geometry.block));
  compact_stride_ = static_cast<int64_t>(blocks_.size()) * geometry.block;
}

void SpinState::Predict(int64_t position, int next_n, absl::Span<float> block_scores) const {
  const kernels::Row row = {0, static_cast<uint32_t>(next_n), position, 0, 0};
  kernels::PredictCpu({.geometry = geometry_,
                       .state = {slab_.data(), records_.data()},
                       .layers = kOneLayer,
                       .rows = &row,
                       .row_count = 1,
                       .max_blocks = static_cast<int32_t>(block_scores.size()),
                       .layer_stride = 0,
                       .block_scores = block_scores.data()});
}

void SpinState::Observe(int64_t position, int next_n, absl::Span<const int32_t> kept,
                        absl::Span<const float* const> scores) {
  const int block = geometry_.block;
  compact_.resize(compact_stride_ * scores.size());
  for (size_t draft = 0; draft < scores.size(); ++draft) {
    float* out = compact_.data() + draft * compact_stride_;
    const int64_t visible = position + static_cast<int64_t>(draft) + 1;
    for (const int32_t j : kept) {
      const int64_t first = int64_t{j} * block;
      const int64_t count = std::clamp<int64_t>(visible - first, 0, block);
      std::copy_n(scores[draft] + first, count, out);
      out += block;
    }
  }
  std::copy(kept.begin(), kept.end(), blocks_.begin());
  kernels::ListHeader header = {};
  header.stamp = {kEpoch, kGeneration, static_cast<uint32_t>(next_n), position};
  header.count = static_cast<int32_t>(kept.size());
  const kernels::ScoredRow row = {.request = 0,
                                  .next_n = static_cast<uint32_t>(next_n),
                                  .position = position,
                                  .accepted = static_cast<uint32_t>(scores.size()),
                                  .buffer = 0,
                                  .coverage = kernels::Coverage::kKept,
                                  .score_row = 0};
  kernels::LayerCounters counters = {};
  kernels::ObserveCpu(
      {.geometry = geometry_,
       .state = {slab_.data(), records_.data()},
       .layers = kOneLayer,
       .rows = &row,
       .row_count = 1,
       .max_next_n = next_n,
       .max_blocks = static_cast<int32_t>(blocks_.size()),
       .epoch = kEpoch,
       .lists = {&header, blocks_.data(), nullptr, 1, 1, static_cast<int32_t>(blocks_.size())},
       .scores = {compact_.data(), kernels::Dtype::kF32, 0, 0, compact_stride_},
       .weights = kernels::WeightsOf(decay_),
       .counters = &counters});
}

float* SpinState::Page(int64_t page) const {
  return reinterpret_cast<float*>(
      kernels::PageAt({slab_.data(), records_.data()}, records_[0], page));
}

void SpinState::SlotSignal(int64_t query, absl::Span<float> out) const {
  const auto at = [&](int64_t index, int64_t offset) {
    return Page(index / kernels::kPageSlots)[offset / static_cast<int64_t>(sizeof(float))];
  };
  for (int64_t slot = 0; slot < static_cast<int64_t>(out.size()); ++slot) {
    const float v = at(slot, kernels::VOffset(geometry_, 0, slot));
    const float d = at(query - slot, kernels::DOffset(geometry_, 0, query - slot));
    out[slot] = std::max(v, d);
  }
}

// A page of one layer is [V | D], kPageSlots elements each.
void SpinState::ForgetVertical() { FillHalves(0); }

void SpinState::ForgetDiagonal() { FillHalves(kernels::kPageSlots); }

void SpinState::FillHalves(int64_t first_element) {
  for (uint32_t page = 0; page < records_[0].page_count; ++page) {
    std::fill_n(Page(page) + first_element, kernels::kPageSlots, kernels::kUnobserved);
  }
}

}  // namespace spin::prediction

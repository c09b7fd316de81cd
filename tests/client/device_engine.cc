// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/client/device_engine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cuda_device.h"
#include "tests/client/toy_engine.h"

namespace spin {
namespace {

void Check(const absl::Status& status) { ASSERT_TRUE(status.ok()) << status; }

}  // namespace

DeviceEngine::DeviceEngine(EngineBackend* backend, Session* session, const SessionOptions& options,
                           ListsMade lists_made)
    : backend_(backend),
      lists_made_(lists_made),
      executor_(options.executor),
      model_(options.model),
      rows_(options.max_requests),
      next_n_(options.max_next_n),
      blocks_(
          static_cast<int32_t>((model_.max_slots + model_.block_slots - 1) / model_.block_slots)),
      device_(backend->device_uuid() == "CPU" ? kernels::MakeCpuDevice()
                                              : *kernels::MakeCudaDevice(backend->device_uuid())) {
  const size_t lists = static_cast<size_t>(model_.layers) * rows_;
  table_ = OnDevice<int32_t>(static_cast<size_t>(rows_) * blocks_);
  kept_table_ = OnDevice<int32_t>(lists * blocks_);
  kept_slots_ = OnDevice<int32_t>(lists * next_n_);
  kept_blocks_ = OnDevice<int32_t>(lists * blocks_);
  host_pages_.resize(lists * next_n_ * blocks_ * model_.block_slots);
  pages_ = OnDevice<float>(host_pages_.size());
  scores_ = OnDevice<float>(host_pages_.size());
  std::vector<int32_t> table;
  for (int row = 0; row < rows_; ++row) {
    for (int32_t block = 0; block < blocks_; ++block) table.push_back(PageOf(row, block));
  }
  Check(device_->Copy(table_, table.data(), static_cast<int64_t>(table.size() * sizeof table[0]),
                      {backend_->stream()}));
  Synchronize();
  auto loop = DeviceLoop::Create(session, {.block_table = table_,
                                           .table_stride = blocks_,
                                           .kept_table = kept_table_,
                                           .kept_slots = kept_slots_,
                                           .kept_blocks = kept_blocks_});
  EXPECT_TRUE(loop.ok()) << loop.status();
  loop_ = *std::move(loop);
  score_ = backend_->Capture([this](void* stream) { LaunchScoring(stream); });
  update_ = backend_->Capture([this](void* stream) { LaunchUpdate(stream); });
}

DeviceEngine::~DeviceEngine() { Synchronize(); }

template <typename T>
T* DeviceEngine::OnDevice(size_t count) {
  auto memory = device_->Allocate(static_cast<int64_t>(count * sizeof(T)));
  EXPECT_TRUE(memory.ok()) << memory.status();
  memory_.push_back(*std::move(memory));
  return reinterpret_cast<T*>(memory_.back().get());
}

// Physical pages of a row lie in no order.
int32_t DeviceEngine::PageOf(int row, int32_t block) const {
  return row * blocks_ + (block * 37 + 11) % blocks_;
}

void DeviceEngine::Synchronize() { Check(device_->Synchronize({backend_->stream()})); }

void DeviceEngine::WritePages(const std::vector<StepRow>& rows) {
  const int64_t page_count = int64_t{rows_} * blocks_;
  for (int layer = 0; layer < model_.layers; ++layer) {
    for (size_t r = 0; r < rows.size(); ++r) {
      for (int draft = 0; draft < rows[r].next_n; ++draft) {
        const int64_t position = rows[r].position + draft;
        float* const out = host_pages_.data() +
                           (int64_t{layer} * next_n_ + draft) * page_count * model_.block_slots;
        for (int64_t slot = 0; slot <= position; ++slot) {
          const int32_t page =
              PageOf(static_cast<int>(r), static_cast<int32_t>(slot / model_.block_slots));
          out[page * int64_t{model_.block_slots} + slot % model_.block_slots] =
              ToyScore(layer, position, slot);
        }
      }
    }
  }
  Check(device_->Copy(pages_, host_pages_.data(),
                      static_cast<int64_t>(host_pages_.size() * sizeof(float)),
                      {backend_->stream()}));
}

void DeviceEngine::LaunchScoring(void* stream) {
  Check(lists_made_ == ListsMade::kAtBeginning ? loop_->SelectAndCompact(rows_, stream)
                                               : loop_->Compact(rows_, stream));
  const int64_t layer_pages = int64_t{rows_} * blocks_ * next_n_;
  const int64_t stride = int64_t{blocks_} * model_.block_slots;
  for (int layer = 0; layer < model_.layers; ++layer) {
    backend_->Score({.pages = pages_ + layer * layer_pages * model_.block_slots,
                     .page_count = int64_t{rows_} * blocks_,
                     .table = kept_table_ + int64_t{layer} * rows_ * blocks_,
                     .table_stride = blocks_,
                     .slots = kept_slots_ + layer * rows_ * next_n_,
                     .scores = scores_ + layer * rows_ * next_n_ * stride,
                     .scores_stride = stride,
                     .rows = rows_,
                     .next_n = next_n_,
                     .block = model_.block_slots},
                    stream);
  }
}

void DeviceEngine::LaunchUpdate(void* stream) {
  const int64_t stride = int64_t{blocks_} * model_.block_slots;
  const DeviceScores scores = {.data = scores_,
                               .type = ElementType::kFloat32,
                               .layer_stride = rows_ * next_n_ * stride,
                               .row_stride = next_n_ * stride,
                               .draft_stride = stride};
  const Layers all = {0, model_.layers};
  Check(loop_->Stage(all, scores, rows_, stream));
  Check(loop_->Audit(all, scores, rows_, stream));
  Check(loop_->Observe(all, scores, rows_, stream));
  if (lists_made_ == ListsMade::kStepAhead) Check(loop_->Select(rows_, stream));
}

void DeviceEngine::Begin(const std::vector<StepRow>& rows) {
  WritePages(rows);
  Check(loop_->BeginStep(rows, backend_->stream()));
  reasons_.clear();
  for (size_t r = 0; r < rows.size(); ++r) {
    reasons_.push_back(loop_->plan(static_cast<int>(r)).reason);
  }
  const bool audited = std::count(reasons_.begin(), reasons_.end(), Reason::kAudit) > 0;
  EXPECT_EQ(loop_->audit_due(), audited && executor_ == Executor::kInline);
}

void DeviceEngine::Replay() { score_(); }

void DeviceEngine::End(const std::vector<StepRow>&, const EndOptions& end) {
  if (next_n_ > 1) Check(loop_->Accept(end, backend_->stream()));
  update_();
  Check(loop_->EndStep(backend_->stream()));
}

DeviceEngine::Lists DeviceEngine::RunStep(const std::vector<StepRow>& rows, const EndOptions& end) {
  Begin(rows);
  Replay();
  End(rows, end);
  return TakeLists(rows);
}

DeviceEngine::Lists DeviceEngine::TakeLists(const std::vector<StepRow>& rows) {
  std::vector<int32_t> slots(static_cast<size_t>(model_.layers) * rows_ * next_n_);
  std::vector<int32_t> blocks(static_cast<size_t>(model_.layers) * rows_ * blocks_);
  const kernels::Stream stream = {backend_->stream()};
  // A copy into pageable memory may keep other threads from CUDA until it is over, and the stream
  // may wait for a spind that is one of them here.
  Synchronize();
  Check(device_->Copy(slots.data(), kept_slots_,
                      static_cast<int64_t>(slots.size() * sizeof slots[0]), stream));
  Check(device_->Copy(blocks.data(), kept_blocks_,
                      static_cast<int64_t>(blocks.size() * sizeof blocks[0]), stream));
  Synchronize();
  Lists lists(model_.layers);
  for (int layer = 0; layer < model_.layers; ++layer) {
    for (size_t r = 0; r < rows.size(); ++r) {
      const size_t at = static_cast<size_t>(layer) * rows_ + r;
      const int32_t last = slots[at * next_n_ + rows[r].next_n - 1];
      const auto begin = blocks.begin() + static_cast<std::ptrdiff_t>(at * blocks_);
      lists[layer].emplace_back(begin,
                                begin + (last + model_.block_slots - 1) / model_.block_slots);
    }
    for (size_t r = rows.size(); r < static_cast<size_t>(rows_); ++r) {
      EXPECT_EQ(slots[(static_cast<size_t>(layer) * rows_ + r) * next_n_], 0);
    }
  }
  return lists;
}

}  // namespace spin

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu_bed.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>

#include "kernels/ema.h"

namespace spin::bench {
namespace {

using kernels::Coverage;
using kernels::Dtype;

constexpr uint64_t kEpoch = 1;
constexpr uint32_t kGeneration = 1;

template <typename T>
void Upload(const DeviceMemory& to, const std::vector<T>& values) {
  Check(cudaMemcpy(to.data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  Check(cudaStreamSynchronize(cudaStreamLegacy));  // launches are on another stream
}

// Slots that a context grows by before it starts again.
int64_t Growth(int64_t slots) { return std::min<int64_t>(512, slots / 2); }

}  // namespace

void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", cudaGetErrorName(error), cudaGetErrorString(error));
  std::exit(1);
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

Bed::Bed(kernels::Device& device, const BedShape& shape, int steps, cudaStream_t stream)
    : device_(device),
      shape_(shape),
      steps_(steps),
      stream_{stream},
      pages_per_request_(kernels::PagesFor(shape.slots)),
      slab_(shape.requests * pages_per_request_ * kernels::PageBytes(geometry())),
      records_(shape.requests * sizeof(kernels::RequestRecord)),
      headers_(2 * shape.requests * shape.layers * sizeof(kernels::ListHeader)),
      blocks_(2 * shape.requests * shape.layers * max_blocks() * sizeof(int32_t)),
      masks_(2 * shape.requests * shape.layers * kernels::MaskWords(max_blocks()) *
             sizeof(kernels::ListMask)),
      counters_(shape.layers * sizeof(kernels::LayerCounters)),
      policy_(sizeof(kernels::Policy)),
      binding_(sizeof(kernels::Binding)),
      scored_(steps * shape.requests * sizeof(kernels::ScoredRow)),
      next_(steps * shape.requests * sizeof(kernels::Row)),
      scores_(shape.layers * shape.requests * shape.next_n * shape.slots *
              kernels::DtypeBytes(shape.scores)),
      workspace_(std::max<int64_t>(
          device.SelectWorkspaceBytes(shape.layers, shape.requests, max_blocks()), 1)),
      block_table_(shape.requests * max_blocks() * sizeof(int32_t)),
      kept_table_(shape.layers * shape.requests * max_blocks() * sizeof(int32_t)),
      kept_blocks_(shape.layers * shape.requests * max_blocks() * sizeof(int32_t)),
      kept_slots_(shape.layers * shape.requests * shape.next_n * sizeof(int32_t)) {
  MakeRecords();
  MakeScores();
  MakeBlockTable();
  std::vector<kernels::Policy> policy(1);
  std::fill_n(policy[0].sparsity, kernels::kMaxLayers, shape.sparsity);
  policy[0].exploration = 0.05;
  policy[0].decay = 0.5;
  policy[0].seed = 1;
  policy[0].pin_first_block = 1;
  Upload(policy_, policy);
  Upload(binding_, std::vector<kernels::Binding>{
                       {slab_.data(), reinterpret_cast<kernels::RequestRecord*>(records_.data()),
                        reinterpret_cast<kernels::LayerCounters*>(counters_.data()), nullptr,
                        reinterpret_cast<kernels::ListHeader*>(headers_.data()),
                        reinterpret_cast<int32_t*>(blocks_.data()),
                        reinterpret_cast<kernels::ListMask*>(masks_.data()), kEpoch,
                        kernels::WeightsOf(0.5), nullptr}});
  Start();
}

void Bed::Start() {
  position_ = (shape_.slots - Growth(shape_.slots)) * shape_.tokens_per_slot - shape_.next_n;
  turn_ = 0;
  WriteRows(Coverage::kAll);
  Step(0);
  Advance(1);
}

void Bed::Advance(int steps) {
  Check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_.handle)));
  for (int step = 0; step < steps; ++step) {
    for (int request = 0; request < shape_.requests; ++request) {
      const int64_t last = PositionOf(step + 1, request) - 1;
      const int64_t slots = kernels::VisibleSlots(last, shape_.tokens_per_slot);
      observed_blocks_ += static_cast<uint64_t>(kernels::BlocksOf(slots, shape_.block_slots));
    }
  }
  position_ += steps * shape_.next_n;
  turn_ += steps;
  const int64_t end = position_ + (steps_ + 1) * shape_.next_n;
  if (end > shape_.slots * shape_.tokens_per_slot) {
    Start();
  } else {
    WriteRows(Coverage::kKept);
  }
}

// With drafts requests are at different tokens of their slots, so that rows of some reach into the
// next slot.
int64_t Bed::PositionOf(int step, int request) const {
  const int behind = shape_.next_n > 1 ? (request + 1) % shape_.tokens_per_slot : 0;
  return position_ + step * shape_.next_n - behind;
}

void Bed::WriteRows(Coverage coverage) {
  std::vector<kernels::ScoredRow> scored;
  std::vector<kernels::Row> next;
  const auto rows = static_cast<uint32_t>(shape_.next_n);
  for (int step = 0; step < steps_; ++step) {
    const auto buffer = static_cast<uint32_t>((turn_ + step) % 2);
    for (uint32_t r = 0; r < static_cast<uint32_t>(shape_.requests); ++r) {
      const int64_t position = PositionOf(step, static_cast<int>(r));
      scored.push_back({r, rows, position, rows, buffer, coverage, r});
      next.push_back({r, rows, position + shape_.next_n, 1 - buffer, kGeneration});
    }
  }
  Upload(scored_, scored);
  Upload(next_, next);
}

kernels::Geometry Bed::geometry() const {
  return {.layers = shape_.layers,
          .block = shape_.block_slots,
          .topk = shape_.topk,
          .tokens_per_slot = shape_.tokens_per_slot,
          .state = shape_.state};
}

int32_t Bed::max_blocks() const { return kernels::BlocksOf(shape_.slots, shape_.block_slots); }

kernels::ListTable Bed::lists() const {
  return {nullptr, nullptr, nullptr, shape_.requests, shape_.layers, max_blocks()};
}

const kernels::ScoredRow* Bed::ScoredRowsOf(int step) const {
  return reinterpret_cast<kernels::ScoredRow*>(scored_.data()) + step * shape_.requests;
}

const kernels::Row* Bed::NextRowsOf(int step) const {
  return reinterpret_cast<kernels::Row*>(next_.data()) + step * shape_.requests;
}

const kernels::Binding* Bed::binding() const {
  return reinterpret_cast<kernels::Binding*>(binding_.data());
}

// Pages of a request lie scattered, as after a while of requests coming and going.
void Bed::MakeRecords() {
  const int64_t page_units = kernels::PageBytes(geometry()) / kernels::kPageOffsetUnit;
  std::vector<uint32_t> pages(shape_.requests * pages_per_request_);
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<uint32_t>(i * page_units);
  std::shuffle(pages.begin(), pages.end(), std::mt19937(1));
  Check(device_.Fill({geometry(), slab_.data(), pages.data(), static_cast<int32_t>(pages.size()),
                      /*zero_init=*/false},
                     stream_));
  std::vector<kernels::RequestRecord> records(shape_.requests);
  for (int r = 0; r < shape_.requests; ++r) {
    records[r].generation = kGeneration;
    records[r].page_count = static_cast<uint32_t>(pages_per_request_);
    records[r].key_hash = r;
    std::copy_n(pages.begin() + r * pages_per_request_, pages_per_request_, records[r].pages);
  }
  Upload(records_, records);
  Check(cudaMemset(headers_.data(), 0,
                   2 * shape_.requests * shape_.layers * sizeof(kernels::ListHeader)));
  Check(cudaMemset(counters_.data(), 0, shape_.layers * sizeof(kernels::LayerCounters)));
}

// Block means differ, so that the best blocks stand out as they do in a model.
void Bed::MakeScores() {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(-3, 1);
  std::vector<float> layer(shape_.requests * shape_.next_n * shape_.slots);
  float mean = 0;
  for (size_t i = 0; i < layer.size(); ++i) {
    if (i % shape_.block_slots == 0) mean = normal(random);
    layer[i] = mean + 0.25f * static_cast<float>(random() % 1024) / 1024;
  }
  const size_t bytes = layer.size() * kernels::DtypeBytes(shape_.scores);
  std::vector<kernels::Bf16> narrow;
  if (shape_.scores == Dtype::kBF16) {
    for (const float score : layer) narrow.push_back(kernels::FromFloat<kernels::Bf16>(score));
  }
  const void* from = narrow.empty() ? static_cast<const void*>(layer.data()) : narrow.data();
  for (int l = 0; l < shape_.layers; ++l) {
    Check(cudaMemcpy(scores_.data() + l * bytes, from, bytes, cudaMemcpyHostToDevice));
  }
}

// Physical blocks of the requests lie scattered, too.
void Bed::MakeBlockTable() {
  std::vector<int32_t> table(shape_.requests * max_blocks());
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::mt19937(3));
  Upload(block_table_, table);
}

void Bed::Observe(int step) {
  Check(device_.Observe(
      {.geometry = geometry(),
       .layers = {0, shape_.layers},
       .rows = ScoredRowsOf(step),
       .row_count = shape_.requests,
       .max_next_n = shape_.next_n,
       .max_blocks = max_blocks(),
       .lists = lists(),
       .scores = {scores_.data(), shape_.scores, shape_.requests * shape_.next_n * shape_.slots,
                  shape_.next_n * shape_.slots, shape_.slots},
       .binding = binding()},
      stream_));
}

kernels::SelectParams Bed::SelectParamsOf(int step) const {
  return {.geometry = geometry(),
          .layers = {0, shape_.layers},
          .rows = NextRowsOf(step),
          .row_count = shape_.requests,
          .max_blocks = max_blocks(),
          .policy = reinterpret_cast<kernels::Policy*>(policy_.data()),
          .lists = lists(),
          .workspace = workspace_.data(),
          .binding = binding()};
}

void Bed::Select(int step) { Check(device_.Select(SelectParamsOf(step), stream_)); }

void Bed::SelectAndCompact(int step) {
  Check(device_.SelectAndCompact(SelectParamsOf(step),
                                 {.geometry = geometry(),
                                  .layers = {0, shape_.layers},
                                  .rows = NextRowsOf(step),
                                  .row_count = shape_.requests,
                                  .lists = lists(),
                                  .block_table = reinterpret_cast<int32_t*>(block_table_.data()),
                                  .table_stride = max_blocks(),
                                  .next_n_stride = shape_.next_n,
                                  .kept_table = reinterpret_cast<int32_t*>(kept_table_.data()),
                                  .kept_slots = reinterpret_cast<int32_t*>(kept_slots_.data()),
                                  .kept_blocks = reinterpret_cast<int32_t*>(kept_blocks_.data()),
                                  .binding = binding()},
                                 stream_));
}

int64_t Bed::bytes_per_step() const {
  return int64_t{shape_.layers} * shape_.requests * shape_.slots *
         (2 * kernels::DtypeBytes(shape_.state) +
          shape_.next_n * kernels::DtypeBytes(shape_.scores));
}

void Bed::CheckObserved() const {
  kernels::LayerCounters counted;
  Check(cudaMemcpy(&counted, counters_.data(), sizeof counted, cudaMemcpyDeviceToHost));
  if (counted.considered_blocks == observed_blocks_) return;
  std::fprintf(stderr, "%llu blocks were observed, not %llu: the times mean nothing\n",
               static_cast<unsigned long long>(counted.considered_blocks),
               static_cast<unsigned long long>(observed_blocks_));
  std::exit(1);
}

double Bed::KeptShare() const {
  kernels::ListHeader header;
  const int64_t list = turn_ % 2 * shape_.requests * shape_.layers;
  Check(cudaMemcpy(&header, headers_.data() + list * sizeof header, sizeof header,
                   cudaMemcpyDeviceToHost));
  return header.blocks > 0 ? static_cast<double>(header.count) / header.blocks : 0;
}

}  // namespace spin::bench

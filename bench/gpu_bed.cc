// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu_bed.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
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
}

// The last position of a context of `slots` one-token slots.
int64_t LastPosition(int64_t slots) { return slots - 2; }

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

Bed::Bed(kernels::Device& device, const BedShape& shape, cudaStream_t stream)
    : device_(device),
      shape_(shape),
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
      scored_(shape.requests * sizeof(kernels::ScoredRow)),
      next_(shape.requests * sizeof(kernels::Row)),
      scores_(shape.layers * shape.requests * shape.slots * kernels::DtypeBytes(shape.scores)),
      workspace_(std::max<int64_t>(
          device.SelectWorkspaceBytes(shape.layers, shape.requests, max_blocks()), 1)) {
  MakeRecords();
  MakeScores();
  std::vector<kernels::Policy> policy(1);
  std::fill_n(policy[0].sparsity, kernels::kMaxLayers, shape.sparsity);
  policy[0].exploration = 0.05;
  policy[0].decay = 0.5;
  policy[0].seed = 1;
  Upload(policy_, policy);

  // A full scan one step back, then the list of this step, then as Step() goes on.
  const int64_t position = LastPosition(shape.slots);
  std::vector<kernels::ScoredRow> scored;
  std::vector<kernels::Row> next;
  for (uint32_t r = 0; r < static_cast<uint32_t>(shape.requests); ++r) {
    scored.push_back({r, 1, position - 1, 1, 1, Coverage::kAll, r});
    next.push_back({r, 1, position, 0, 0});
  }
  Upload(scored_, scored);
  Upload(next_, next);
  Step();
  Check(cudaStreamSynchronize(stream));
  for (int r = 0; r < shape.requests; ++r) {
    scored[r].position = position;
    scored[r].buffer = 0;
    scored[r].coverage = Coverage::kKept;
    next[r].position = position + 1;
    next[r].buffer = 1;
  }
  Upload(scored_, scored);
  Upload(next_, next);
}

kernels::Geometry Bed::geometry() const {
  return {.layers = shape_.layers,
          .block = 64,
          .topk = shape_.topk,
          .tokens_per_slot = 1,
          .state = shape_.state};
}

int32_t Bed::max_blocks() const { return kernels::BlocksOf(shape_.slots, 64); }

kernels::ListTable Bed::lists() const {
  return {reinterpret_cast<kernels::ListHeader*>(headers_.data()),
          reinterpret_cast<int32_t*>(blocks_.data()),
          reinterpret_cast<kernels::ListMask*>(masks_.data()),
          shape_.requests,
          shape_.layers,
          max_blocks()};
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
  std::vector<float> layer(shape_.requests * shape_.slots);
  float mean = 0;
  for (size_t i = 0; i < layer.size(); ++i) {
    if (i % 64 == 0) mean = normal(random);
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

void Bed::Observe() {
  Check(device_.Observe(
      {.geometry = geometry(),
       .state = {slab_.data(), reinterpret_cast<kernels::RequestRecord*>(records_.data())},
       .layers = {0, shape_.layers},
       .rows = reinterpret_cast<kernels::ScoredRow*>(scored_.data()),
       .row_count = shape_.requests,
       .max_next_n = 1,
       .max_blocks = max_blocks(),
       .epoch = kEpoch,
       .lists = lists(),
       .scores = {scores_.data(), shape_.scores, shape_.requests * shape_.slots, shape_.slots,
                  shape_.slots},
       .weights = kernels::WeightsOf(0.5),
       .counters = reinterpret_cast<kernels::LayerCounters*>(counters_.data())},
      stream_));
}

void Bed::Select() {
  Check(device_.Select(
      {.geometry = geometry(),
       .state = {slab_.data(), reinterpret_cast<kernels::RequestRecord*>(records_.data())},
       .layers = {0, shape_.layers},
       .rows = reinterpret_cast<kernels::Row*>(next_.data()),
       .row_count = shape_.requests,
       .max_blocks = max_blocks(),
       .layer_stride = 0,
       .block_scores = nullptr,
       .policy = reinterpret_cast<kernels::Policy*>(policy_.data()),
       .epoch = kEpoch,
       .lists = lists(),
       .workspace = workspace_.data()},
      stream_));
}

int64_t Bed::bytes_per_step() const {
  return int64_t{shape_.layers} * shape_.requests * shape_.slots *
         (2 * kernels::DtypeBytes(shape_.state) + kernels::DtypeBytes(shape_.scores));
}

double Bed::KeptShare() const {
  kernels::ListHeader header;
  Check(cudaMemcpy(&header, headers_.data(), sizeof header, cudaMemcpyDeviceToHost));
  return header.blocks > 0 ? static_cast<double>(header.count) / header.blocks : 0;
}

}  // namespace spin::bench

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "tests/kernels/device_test.h"
#include "tests/kernels/test_values.h"

// One session as the owner of a slab would set it up, on the device under test: state pages
// scattered over a slab, records, lists, counters. Each call uploads what a launch needs, launches
// and waits.
namespace spin::kernels {

struct SessionOptions {
  Geometry geometry = {
      .layers = 1, .block = 64, .topk = 64, .tokens_per_slot = 1, .state = Dtype::kF32};
  int32_t max_requests = 1;
  int64_t max_slots = 1024;
  bool zero_init = false;
  uint64_t page_seed = 1;  // of the order of pages in the slab
  bool bound = false;      // launches find state, lists and counters through a Binding
};

// A block list as it lies in the slab.
struct StoredList {
  ListHeader header;
  std::vector<int32_t> blocks;
};

class TestSession {
 public:
  TestSession(const TestDevice& device, const SessionOptions& options);
  ~TestSession();  // fails the test if anything was written between the pages

  // Gives the request fresh pages for `slots`; generation 1.
  void Open(uint32_t request, int64_t slots, uint64_t key_hash = 0);
  void Grow(uint32_t request, int64_t slots);
  void SetGeneration(uint32_t request, uint32_t generation);

  void Predict(const std::vector<Row>& rows);
  void Predict(const std::vector<Row>& rows, LayerRange layers);
  void Select(const std::vector<Row>& rows, const Policy& policy);
  void Select(const std::vector<Row>& rows, const Policy& policy, LayerRange layers);
  // Select on its own: it predicts what it needs.
  void SelectFromState(const std::vector<Row>& rows, const Policy& policy);
  void Observe(const std::vector<ScoredRow>& rows, const ScoreTensor& scores, double decay);
  void Observe(const std::vector<ScoredRow>& rows, const ScoreTensor& scores, double decay,
               LayerRange layers);
  std::vector<AuditResult> Audit(const std::vector<ScoredRow>& rows, const ScoreTensor& scores);

  // Block scores between Predict and Select: of row `row` out of `row_count`.
  std::vector<float> BlockScores(int32_t layer, int32_t row, int32_t row_count, int32_t blocks);
  void SetBlockScores(int32_t layer, int32_t row, int32_t row_count,
                      const std::vector<float>& scores);

  // The list of layer 0 that follows from these block scores.
  StoredList SelectFrom(const std::vector<float>& scores, const Row& row, const Policy& policy);

  StoredList List(uint32_t buffer, uint32_t request, int32_t layer);
  // The list as its masks have it; fails the test if their ranks do not fit their bits.
  std::vector<int32_t> MaskedBlocks(uint32_t buffer, uint32_t request, int32_t layer,
                                    int32_t blocks);
  void SetList(uint32_t buffer, uint32_t request, int32_t layer,
               const std::vector<int32_t>& blocks);
  void SetHeader(uint32_t buffer, uint32_t request, int32_t layer, const ListHeader& header);

  // Both averages, by slot and by distance, over all pages of the request. bf16 comes widened.
  std::vector<float> V(uint32_t request, int32_t layer);
  std::vector<float> D(uint32_t request, int32_t layer);
  void SetV(uint32_t request, int32_t layer, const std::vector<float>& values);
  void SetD(uint32_t request, int32_t layer, const std::vector<float>& values);

  LayerCounters Counters(int32_t layer) { return counters_.Download(layer, 1)[0]; }
  LayerAudits Audits(int32_t layer) { return audits_.Download(layer, 1)[0]; }

  const Geometry& geometry() const { return options_.geometry; }
  int32_t max_blocks() const { return max_blocks_; }
  int64_t capacity(uint32_t request) const { return pages_[request].size() * kPageSlots; }
  const std::vector<uint32_t>& pages(uint32_t request) const { return pages_[request]; }
  LayerRange all_layers() const { return {0, options_.geometry.layers}; }
  StateView state() const { return {slab_.data(), records_.data()}; }
  ListTable lists() const;
  // What launches are told: everything, or where it is told.
  StateView launch_state() const;
  ListTable launch_lists() const;
  uint64_t launch_epoch() const { return options_.bound ? 0 : kEpoch; }
  LayerCounters* launch_counters() const { return options_.bound ? nullptr : counters_.data(); }
  // The second half is a decoy: a bound launch only learns from it that audits are asked for.
  LayerAudits* launch_audits() const {
    return audits_.data() + (options_.bound ? options_.geometry.layers : 0);
  }
  const Binding* LaunchBinding(EmaWeights weights = {});
  DeviceArray<std::byte>& slab() { return slab_; }

  static constexpr uint64_t kEpoch = 77;

 private:
  void Select(const std::vector<Row>& rows, const Policy& policy, LayerRange layers,
              const float* block_scores);
  std::vector<float> Average(uint32_t request, int32_t layer, bool by_distance);
  void SetAverage(uint32_t request, int32_t layer, bool by_distance, std::vector<float> values);
  void WriteRecord(uint32_t request);
  const TestDevice& device_;
  SessionOptions options_;
  int32_t max_blocks_;
  std::vector<uint32_t> free_pages_;
  std::vector<std::vector<uint32_t>> pages_;  // of each request
  std::vector<RequestRecord> host_records_;
  DeviceArray<std::byte> slab_;
  DeviceArray<RequestRecord> records_;
  DeviceArray<ListHeader> headers_;
  DeviceArray<int32_t> blocks_;
  DeviceArray<ListMask> masks_;
  DeviceArray<float> block_scores_;
  DeviceArray<std::byte> workspace_;
  DeviceArray<LayerCounters> counters_;
  DeviceArray<LayerAudits> audits_;
  DeviceArray<Binding> binding_;
};

}  // namespace spin::kernels
